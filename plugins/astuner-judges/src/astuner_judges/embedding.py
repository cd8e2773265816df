"""Texts as vectors of length one, which readers and judges compare for similarity."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol
from zlib import crc32

import numpy as np
from attrs import field, frozen
from attrs.validators import ge

from astuner.contract.errors import DataError
from astuner.contract.plain_values import mend_text
from astuner.shared.clients import (
    Budget,
    CachedAnswer,
    LLMClient,
    LLMFailed,
    Patience,
    Sender,
    Taken,
    find_endpoint,
    make_question_key,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Embedding(Protocol):
    """Turns texts into vectors."""

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return an array of shape (texts, dimensions) with rows of length one, or zero for an empty text."""


class NgramEmbedding:
    """Hashed character n-grams, weighted by how rare they are among the texts: offline and deterministic.

    The cosine similarity of these vectors measures spelling, not meaning.
    """

    def __init__(self, dimensions: int = 2048, sizes: Sequence[int] = (3, 4, 5)) -> None:
        """Hash n-grams of `sizes` characters into `dimensions` places."""
        self._dimensions, self._sizes = dimensions, tuple(sizes)

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return term frequency (1 + log) times inverse document frequency, smoothed, of each n-gram's place."""
        counts = np.zeros((len(texts), self._dimensions))
        for row, text in enumerate(texts):
            for gram in self._cut_grams(text):
                counts[row, crc32(gram.encode("utf-8", "surrogatepass")) % self._dimensions] += 1
        rarity = np.log((1 + len(texts)) / (1 + np.count_nonzero(counts, axis=0))) + 1
        return normalise_rows(np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * rarity)

    def _cut_grams(self, text: str) -> list[str]:
        plain = f" {' '.join(text.casefold().split())} "
        if not plain.strip():
            return []
        return [plain[at : at + size] for size in self._sizes for at in range(max(len(plain) - size + 1, 1))]


class ApiEmbedding:
    """Asks `/v1/embeddings` of the API that the environment names; known texts are not sent again."""

    def __init__(
        self,
        model: str,
        wanted_by: str,
        *,
        batch: int = 64,
        environ: Mapping[str, str] | None = None,
        beside: LLMClient | None = None,
    ) -> None:
        """Raises `NoEndpoint` if the environment names no API. With `beside`, the budget and cache of that client are used."""
        self._endpoint = find_endpoint(os.environ if environ is None else environ, wanted_by)
        self._model, self._batch = model, batch
        self._budget = Budget() if beside is None else beside.budget
        self._cache = None if beside is None else beside.cache
        self._sender = Sender(self._endpoint, Patience(), f"embedding model '{model}'")
        self._known: dict[str, list[float]] = {}

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the API's vectors, made length one.

        Raises `LLMFailed`, `LLMBudgetSpent`, and `DataError` when dimensions differ.
        """
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        if self._cache is not None:
            new = await asyncio.to_thread(self._load_from_cache, new)
        for start in range(0, len(new), self._batch):
            await self._ask(new[start : start + self._batch])
        found = [self._known[text] for text in texts]
        sizes = {len(one) for one in found}
        if len(sizes) > 1:
            raise DataError(
                f"embedding model '{self._model}' gave vectors of {', '.join(map(str, sorted(sizes)))} dimensions for texts of "
                "one request; they cannot be compared: use one model for all of them"
            )
        return normalise_rows(np.array(found, dtype=np.float64).reshape(len(found), -1))

    async def _ask(self, texts: Sequence[str]) -> None:
        part = [mend_text(text) or " " for text in texts]
        async with self._sender.slots:
            reserved, taken = await self._budget.acquire("".join(texts), 0), Taken()
            try:
                answer = await self._sender.send(
                    lambda client: client.embeddings.create(model=self._model, input=part, encoding_format="float"), taken
                )
            finally:
                self._budget.settle(reserved, *taken.tokens(reserved))
        found = [list(one.embedding) for one in sorted(answer.data, key=lambda one: one.index)]
        if len(found) != len(texts):
            raise LLMFailed(f"{self._sender.where}: {len(found)} vectors for {len(texts)} texts")
        self._known.update(zip(texts, found, strict=True))
        if self._cache is not None:
            await asyncio.to_thread(self._store_in_cache, texts)

    def _load_from_cache(self, texts: Sequence[str]) -> list[str]:
        left = []
        for text in texts:
            kept = None if self._cache is None else self._cache.get(self._make_key(text))
            if kept is None:
                left.append(text)
            else:
                self._known[text] = json.loads(kept.text)
        return left

    def _store_in_cache(self, texts: Sequence[str]) -> None:
        for text in texts:
            if self._cache is not None:
                self._cache.put(self._make_key(text), self._model, CachedAnswer(json.dumps(self._known[text]), 0, 0))

    def _make_key(self, text: str) -> str:
        return make_question_key(self._endpoint.base_url, {"model": self._model, "input": text})


@frozen(kw_only=True)
class EmbeddingOptions:
    """How texts become vectors."""

    kind: Literal["ngram", "api"] = "ngram"
    """`ngram` compares spelling, offline and deterministic; `api` asks the embedding model of the OpenAI-compatible API."""
    model_name: str | None = None
    """The embedding model of the API, such as `text-embedding-v4`; needed with `api`."""
    dimensions: int = field(default=2048, validator=ge(16))
    """Of `ngram`."""
    batch_size: int = field(default=64, validator=ge(1))
    """Texts of one request to the API."""

    def __attrs_post_init__(self) -> None:
        # Checks two fields together, which a field's validator cannot.
        if self.kind == "api" and not self.model_name:
            raise ValueError("kind: api needs model_name, the embedding model to ask")

    def make_embedding(
        self, wanted_by: str, environ: Mapping[str, str] | None = None, *, beside: LLMClient | None = None
    ) -> Embedding:
        """Make the embedding; with `beside`, requests to an API use the budget and cache of that client."""
        if self.kind == "ngram":
            return NgramEmbedding(self.dimensions)
        return ApiEmbedding(str(self.model_name), wanted_by, batch=self.batch_size, environ=environ, beside=beside)


def normalise_rows(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rows of length one; rows of zeros stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit_rows: NDArray[np.float64] = vectors / np.where(lengths > 0, lengths, 1)
    return unit_rows
