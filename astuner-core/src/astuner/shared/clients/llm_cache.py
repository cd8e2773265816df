"""Answers of LLMs stored in a file, so that a question is paid for once, even by a run that was killed and resumed."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import DataError
from astuner.shared.private_files import open_private

_WAIT_S = 30.0
"""How long to wait for another process that writes."""
_LOOK_S = 0.05
_TABLE = """\
CREATE TABLE IF NOT EXISTS answers
(key TEXT PRIMARY KEY, model TEXT, text TEXT, prompt_tokens INTEGER, completion_tokens INTEGER) WITHOUT ROWID
"""

log = logging.getLogger(__name__)


@frozen
class CachedAnswer:
    """An answer in the cache."""

    text: str
    prompt_tokens: int
    completion_tokens: int


def make_question_key(base_url: str, body: Mapping[str, Any]) -> str:
    """Return 32 hex digits of everything that an answer depends on: address, model, messages, parameters."""
    text = json.dumps([base_url, body], sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class LLMCache:
    """A SQLite file of answers. Thread-safe, and several processes may share it on a local disk."""

    def __init__(self, path: Path) -> None:
        """Open the file, creating it and its folder if missing. Raises `DataError` when that fails."""
        self.path = path
        self._lock = threading.Lock()
        self._warned = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite gives its other files the mode of this one.
            open_private(path, "ab").close()
            self._file = sqlite3.connect(path, timeout=_WAIT_S, isolation_level=None, check_same_thread=False)
            self._prepare()
        except (OSError, sqlite3.Error) as error:
            remedy = (
                "another process is using it: let it finish, or name another file"
                if _is_busy(error)
                else "remove it, or name another file"
            )
            raise DataError(f"{path}: cannot be used as a cache of answers: {error}; {remedy}") from error

    def get(self, key: str) -> CachedAnswer | None:
        """Return a stored answer; None if there is none, or the file cannot be read."""
        with self._lock:
            try:
                row = self._file.execute(
                    "SELECT text, prompt_tokens, completion_tokens FROM answers WHERE key = ?", (key,)
                ).fetchone()
            except sqlite3.Error as error:
                self._warn_once(error)
                return None
        return None if row is None else CachedAnswer(*row)

    def put(self, key: str, model: str, kept: CachedAnswer) -> None:
        """Store an answer; it is on disk when this returns. A failed write is logged; the answer is still valid."""
        values = (key, model, kept.text, kept.prompt_tokens, kept.completion_tokens)
        self._write("INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?)", values)

    def drop(self, key: str) -> None:
        """Remove an answer."""
        self._write("DELETE FROM answers WHERE key = ?", (key,))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()

    def _prepare(self) -> None:
        until = time.monotonic() + _WAIT_S
        while True:
            try:
                # SQLite does not wait when two processes switch a new file to WAL at once.
                self._file.execute("PRAGMA journal_mode=WAL")
                self._file.execute(_TABLE)
                return
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or time.monotonic() > until:
                    raise
                time.sleep(_LOOK_S)

    def _write(self, statement: str, values: tuple[object, ...]) -> None:
        with self._lock:
            try:
                self._file.execute(statement, values)
            except (sqlite3.Error, UnicodeError) as error:
                self._warn_once(error)

    def _warn_once(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("%s: answers are not stored, so they may be paid for again: %s", self.path, error)


def _is_busy(error: Exception) -> bool:
    return isinstance(error, sqlite3.OperationalError) and any(word in str(error) for word in ("locked", "busy"))
