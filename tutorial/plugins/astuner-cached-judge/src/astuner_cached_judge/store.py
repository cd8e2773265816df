"""Verdicts in a SQLite file, which several processes may read and write at once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs

from astuner.contract.schema import Unjudged, Verdict

TABLES = (
    "CREATE TABLE IF NOT EXISTS verdicts (key TEXT PRIMARY KEY, verdicts TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS counts (run TEXT, judge TEXT, found INTEGER, asked INTEGER, PRIMARY KEY (run, judge))",
)

LOCK_TIMEOUT_S = 30.0
"""Longest wait for another process that writes."""


@attrs.frozen(kw_only=True)
class Count:
    """Episodes of one judge in one run."""

    judge: str
    found: int
    """Answered from the file."""
    asked: int
    """Answered by the judge."""


class VerdictStore:
    """A connection lasts as long as one call, so the store may be used in any thread and after a fork."""

    def __init__(self, path: Path) -> None:
        """Create the file if it does not exist; raises `sqlite3.Error` if it cannot be written or is not a database."""
        self._path = path
        with self._begin_write() as connection:
            for table in TABLES:
                connection.execute(table)

    def find(self, keys: Iterable[str]) -> dict[str, list[Verdict]]:
        """Return what is kept under these keys."""
        with self._connect() as connection:
            rows = [connection.execute("SELECT key, verdicts FROM verdicts WHERE key = ?", (key,)).fetchone() for key in keys]
        return {key: [Verdict(**verdict) for verdict in json.loads(text)] for key, text in filter(None, rows)}

    def add(self, found: Mapping[str, Sequence[Verdict | Unjudged]]) -> None:
        """Keep verdicts unless one of them is `Unjudged`; existing entries stay."""
        texts = [(key, text) for key, verdicts in found.items() if (text := _text(verdicts)) is not None]
        with self._begin_write() as connection:
            connection.executemany("INSERT OR IGNORE INTO verdicts VALUES (?, ?)", texts)

    def count(self, run: str, judge: str, *, found: int, asked: int) -> None:
        """Add to the counts of a run."""
        with self._begin_write() as connection:
            connection.execute(
                "INSERT INTO counts VALUES (?, ?, ?, ?) "
                "ON CONFLICT DO UPDATE SET found = found + excluded.found, asked = asked + excluded.asked",
                (run, judge, found, asked),
            )

    def counts(self, run: str) -> list[Count]:
        """Return the counts of all processes of a run, by judge."""
        with self._connect() as connection:
            rows = connection.execute("SELECT judge, found, asked FROM counts WHERE run = ? ORDER BY judge", (run,)).fetchall()
        return [Count(judge=judge, found=found, asked=asked) for judge, found, asked in rows]

    def forget_counts(self, run: str) -> None:
        """Start the counts of a run at zero."""
        with self._begin_write() as connection:
            connection.execute("DELETE FROM counts WHERE run = ?", (run,))

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=LOCK_TIMEOUT_S)
        try:
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _begin_write(self) -> Iterator[sqlite3.Connection]:
        with self._connect() as connection, connection:
            yield connection


def _text(verdicts: Sequence[Verdict | Unjudged]) -> str | None:
    """Return verdicts as JSON; None if one is a failure, or cannot be expressed in JSON."""
    if not all(type(verdict) is Verdict for verdict in verdicts):
        return None
    try:
        # A reward may be a numpy scalar, which `float` accepts.
        return json.dumps([attrs.asdict(verdict) for verdict in verdicts], allow_nan=False, default=float)
    except (TypeError, ValueError):
        return None
