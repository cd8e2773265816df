"""Answers of LLMs kept in a file, so that a question is paid for once, also by a run that was killed and goes on."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.errors import DataError

_WAIT_S = 30.0
"""For another process that writes."""


@frozen
class Kept:
    """An answer as it was given."""

    text: str
    prompt_tokens: int
    completion_tokens: int


def question_key(base_url: str, body: Mapping[str, Any]) -> str:
    """Return 32 hex digits of everything that an answer depends on: where it was asked, model, messages, parameters."""
    text = json.dumps([base_url, body], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class LLMCache:
    """A SQLite file of answers. Thread-safe, and several processes may share it on a local disk."""

    def __init__(self, path: Path) -> None:
        """Open the file, making it and its folder where they are missing. Raises `DataError` when that cannot be."""
        self.path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._file.execute("PRAGMA journal_mode=WAL")
            self._file.execute(
                "CREATE TABLE IF NOT EXISTS answers "
                "(key TEXT PRIMARY KEY, model TEXT, text TEXT, prompt_tokens INTEGER, completion_tokens INTEGER) WITHOUT ROWID"
            )
        except (OSError, sqlite3.Error) as error:
            raise DataError(f"{path}: cannot be used as a cache of answers: {error}; remove it, or name another file") from error

    def get(self, key: str) -> Kept | None:
        """Return a kept answer."""
        with self._lock:
            row = self._file.execute(
                "SELECT text, prompt_tokens, completion_tokens FROM answers WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else Kept(*row)

    def put(self, key: str, model: str, kept: Kept) -> None:
        """Keep an answer; it is on the disk when this returns."""
        with self._lock:
            self._file.execute(
                "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)",
                (key, model, kept.text, kept.prompt_tokens, kept.completion_tokens),
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()
