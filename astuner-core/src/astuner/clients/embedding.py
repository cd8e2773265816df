"""Texts as vectors of length one, by which readers and judges tell what is alike."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol
from zlib import crc32

import numpy as np
from attrs import field, frozen
from attrs.validators import ge

from astuner.clients.llm import LLMFailed
from astuner.clients.llm_endpoint import find_endpoint
from astuner.errors import DataError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Embedding(Protocol):
    """Makes vectors of texts."""

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return an array of shape (texts, dimensions) with rows of length one, or zero for a text with nothing in it."""
        ...


class NgramEmbedding:
    """Hashed character n-grams, weighed by how rare they are among the texts: offline, and the same every time.

    Cosine similarity of these vectors is that of spelling, not of meaning.
    """

    def __init__(self, dimensions: int = 2048, sizes: Sequence[int] = (3, 4, 5)) -> None:
        """Take n-grams of `sizes` characters into so many places."""
        self._dimensions, self._sizes = dimensions, tuple(sizes)

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return term frequency (1 + log) times inverse document frequency, smoothed, of each n-gram's place."""
        counts = np.zeros((len(texts), self._dimensions))
        for row, text in enumerate(texts):
            for gram in self._grams(text):
                counts[row, crc32(gram.encode("utf-8", "surrogatepass")) % self._dimensions] += 1
        rarity = np.log((1 + len(texts)) / (1 + np.count_nonzero(counts, axis=0))) + 1
        return unit(np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * rarity)

    def _grams(self, text: str) -> list[str]:
        plain = f" {' '.join(text.casefold().split())} "
        if not plain.strip():
            return []
        return [plain[at : at + size] for size in self._sizes for at in range(max(len(plain) - size + 1, 1))]


class ApiEmbedding:
    """Asks `/v1/embeddings` of the API that the environment names."""

    def __init__(self, model: str, wanted_by: str, *, batch: int = 64, environ: Mapping[str, str] | None = None) -> None:
        """Raises `NoEndpoint` where the environment names no API."""
        self._endpoint = find_endpoint(os.environ if environ is None else environ, wanted_by)
        self._model, self._batch = model, batch

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the API's vectors, made length one; raises `LLMFailed`, and `DataError` when their dimensions differ."""
        from openai import AsyncOpenAI, OpenAIError

        key = next(self._endpoint.keys_for(0))
        found: list[Sequence[float]] = []
        async with AsyncOpenAI(base_url=self._endpoint.base_url, api_key=key) as client:
            for start in range(0, len(texts), self._batch):
                part = [text or " " for text in texts[start : start + self._batch]]
                try:
                    answer = await client.embeddings.create(model=self._model, input=part, encoding_format="float")
                except OpenAIError as error:
                    told = str(error).replace(key, "***") if len(key) > len("none") else str(error)
                    raise LLMFailed(f"embedding model '{self._model}' at {self._endpoint.base_url}: {told}") from error
                found += [one.embedding for one in sorted(answer.data, key=lambda one: one.index)]
                if len(found) != start + len(part):
                    raise LLMFailed(f"embedding model '{self._model}': {len(found) - start} vectors for {len(part)} texts")
        sizes = {len(one) for one in found}
        if len(sizes) > 1:
            raise DataError(
                f"embedding model '{self._model}' gave vectors of {', '.join(map(str, sorted(sizes)))} dimensions for texts of "
                "one request; they cannot be compared: use one model for all of them"
            )
        return unit(np.array(found, dtype=np.float64).reshape(len(found), -1))


@frozen(kw_only=True)
class EmbeddingOptions:
    """How texts become vectors."""

    kind: Literal["ngram", "api"] = "ngram"
    """`ngram` compares spelling, offline and the same every time; `api` asks the embedding model of the OpenAI-compatible API."""
    model_name: str | None = None
    """The embedding model of the API, such as `text-embedding-v4`; needed with `api`."""
    dimensions: int = field(default=2048, validator=ge(16))
    """Of `ngram`."""
    batch_size: int = field(default=64, validator=ge(1))
    """Texts of one request to the API."""

    def __attrs_post_init__(self) -> None:
        # Two fields together, which no validator beside one of them can name as well.
        if self.kind == "api" and not self.model_name:
            raise ValueError("kind: api needs model_name, the embedding model to ask")

    def embedding(self, wanted_by: str, environ: Mapping[str, str] | None = None) -> Embedding:
        """Make what embeds."""
        if self.kind == "ngram":
            return NgramEmbedding(self.dimensions)
        return ApiEmbedding(str(self.model_name), wanted_by, batch=self.batch_size, environ=environ)


def unit(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows of length one; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit_rows: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1)
    return unit_rows
