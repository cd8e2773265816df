"""The embedding that compares questions; an API's vectors are cached in a file, so each text is paid for once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from attrs import define, field

from astuner.contract.errors import AstunerError, DataError
from astuner.shared.clients import Budget, LLMBudgetSpent, LLMCache, LLMClient, LLMFailed, Usage, find_endpoint
from astuner_datagen.options import KEY, DeduplicationFilter
from astuner_judges.embedding import ApiEmbedding, Embedding, NgramEmbedding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WANTED_BY = "deduplication_filter of the reader 'data_generation'"
_ALIYUN = "aliyuncs.com"
_LIKELY = "x" * 600
"""Assumed length of a future question, rather too long: an excess reserve is returned."""


class Unembedded(AstunerError):
    """The API gave no vector for one of the texts, or a limit forbids asking."""

    def __init__(self, message: str, first: int) -> None:
        """`first` is the place of the first such text; all before it have vectors."""
        super().__init__(message)
        self.first = first


@contextmanager
def open_embedding(
    options: DeduplicationFilter, config_dir: Path, directory: Path, budget: Budget | None = None
) -> Iterator[Embedding | None]:
    """Yield the embedding of questions; None if only the same words count. The budget includes requests to its API."""
    params = options.params
    if not options.enabled or params.model is None:
        yield NgramEmbedding() if options.enabled else None
        return
    environ = dict(os.environ)
    if params.base_url is not None:
        # A key goes only to the vendor whose variable holds it.
        vendor = "DASHSCOPE_API_KEY" if _is_aliyun(params.base_url) else "OPENAI_API_KEY"
        environ |= {"OPENAI_BASE_URL": params.base_url, "OPENAI_API_KEY": environ.get(vendor, "")}
    path = directory / "vectors.sqlite" if params.db_path is None else (config_dir / Path(params.db_path).expanduser()).resolve()
    try:
        cache = LLMCache(path)
    except DataError as error:
        raise DataError(f"{KEY}.deduplication_filter.params.db_path: {error}") from error
    beside = LLMClient(find_endpoint(environ, _WANTED_BY), params.model, budget=budget, cache=cache)
    with closing(beside):
        api = ApiEmbedding(params.model, _WANTED_BY, batch=params.batch_size, environ=environ, beside=beside)
        parts = InParts(api, params.batch_size, path, beside.budget)
        try:
            yield parts
        finally:
            parts.release()


@define(eq=False)
class InParts:
    """An embedding that asks an API in batches, and knows on a failure which texts have vectors."""

    _api: Embedding
    _size: int
    _path: Path
    _budget: Budget
    _embedded: set[str] = field(factory=set, init=False)
    _held: list[Usage] = field(factory=list, init=False)

    def hold(self, texts: Iterable[str], more: int) -> None:
        """Reserve the cost of the vectors of texts, and of further questions, until vectors are next requested.

        Answers that cannot be compared would be wasted. Raises `LLMBudgetSpent`.
        """
        self.release()
        new = [*(text for text in dict.fromkeys(texts) if text not in self._embedded), *([_LIKELY] * more)]
        for start in range(0, len(new), self._size):
            self._held.append(self._budget.reserve("".join(new[start : start + self._size]), 0))

    def release(self) -> None:
        """Release the reserve."""
        while self._held:
            self._budget.settle(self._held.pop(), requests=0)

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return the vectors; raises `Unembedded`, and `DataError` if their sizes differ."""
        self.release()
        try:
            new = [text for text in dict.fromkeys(texts) if text not in self._embedded]
            for start in range(0, len(new), self._size):
                part = new[start : start + self._size]
                await self._api.vectors(part)
                self._embedded.update(part)
            return await self._api.vectors(texts)
        except (LLMFailed, LLMBudgetSpent) as error:
            first = next((number for number, text in enumerate(texts) if text not in self._embedded), len(texts))
            raise Unembedded(str(error), first) from error
        except DataError as error:
            raise DataError(f"{self._path}: {error}, and remove this file, which holds those of another") from error


def _is_aliyun(url: str) -> bool:
    host = (urlsplit(url).hostname or "").rstrip(".")
    return host == _ALIYUN or host.endswith(f".{_ALIYUN}")
