"""The embedding that compares questions; vectors of an API are kept in a file, so that each text is paid for once."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np

from astuner.clients.embedding import ApiEmbedding, Embedding, NgramEmbedding
from astuner.clients.llm_endpoint import find_endpoint
from astuner.errors import DataError
from astuner_readers.generation.options import KEY, DeduplicationFilter

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WANTED_BY = "deduplication_filter of the reader 'data_generation'"
_WAIT_S = 30.0


@contextmanager
def embedding_of(options: DeduplicationFilter, config_dir: Path, directory: Path) -> Iterator[Embedding | None]:
    """Yield what compares questions; None where only the same words count."""
    params = options.params
    if not options.enabled or params.model is None:
        yield NgramEmbedding() if options.enabled else None
        return
    environ = dict(os.environ)
    if params.base_url is not None:
        # A key goes to no other vendor than the one whose variable holds it.
        vendor = "DASHSCOPE_API_KEY" if (urlsplit(params.base_url).hostname or "").endswith("aliyuncs.com") else "OPENAI_API_KEY"
        environ |= {"OPENAI_BASE_URL": params.base_url, "OPENAI_API_KEY": environ.get(vendor, "")}
    api = ApiEmbedding(params.model, _WANTED_BY, batch=params.batch_size, environ=environ)
    where = f"{find_endpoint(environ, _WANTED_BY).base_url} {params.model}"
    path = directory / "vectors.sqlite" if params.db_path is None else (config_dir / Path(params.db_path).expanduser()).resolve()
    kept = KeptVectors(api, where, path)
    try:
        yield kept
    finally:
        kept.close()


class KeptVectors:
    """An embedding that asks another one only for texts whose vectors are not in its file."""

    def __init__(self, asked: Embedding, where: str, path: Path) -> None:
        """`where` tells vectors of one model from those of another. Raises `DataError` for a file that cannot be used."""
        self._asked, self._where, self._path = asked, where, path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._file.execute("CREATE TABLE IF NOT EXISTS vectors (key TEXT PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        except (OSError, sqlite3.Error) as error:
            key = f"{KEY}.deduplication_filter.params.db_path"
            raise DataError(f"{key}: {path}: cannot be used as a file of vectors: {error}; name another file") from error

    async def vectors(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Return kept vectors, and those of the other embedding for the rest. Raises `DataError` where their sizes differ."""
        keys = [sha256(f"{self._where}\0{text}".encode()).hexdigest() for text in texts]
        found = {key: vector for key in dict.fromkeys(keys) if (vector := self._get(key)) is not None}
        missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in found}
        if missing:
            asked = await self._asked.vectors(list(missing.values()))
            for key, vector in zip(missing, asked, strict=True):
                self._file.execute("INSERT OR REPLACE INTO vectors VALUES (?, ?)", (key, vector.tobytes()))
                found[key] = vector
        sizes = sorted({len(vector) for vector in found.values()})
        if len(sizes) > 1:
            raise DataError(
                f"{self._path}: holds vectors of {sizes[0]} dimensions, and the model gives {sizes[-1]} now (or the other way "
                "round); they cannot be compared: remove the file"
            )
        return np.stack([found[key] for key in keys]) if keys else np.zeros((0, 0))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _get(self, key: str) -> NDArray[np.float64] | None:
        row = self._file.execute("SELECT vector FROM vectors WHERE key = ?", (key,)).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype=np.float64)
