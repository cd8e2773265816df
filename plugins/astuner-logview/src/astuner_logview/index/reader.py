"""Reading an index while it is made."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from astuner_logview.index.places import find_index
from astuner_logview.index.schema import SPLITS, VERSION, make_tables


@define(eq=False)
class IndexReader:
    """The index of one run. Without one, or with one that another version has made, every query finds nothing."""

    run: Path
    path: Path = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find the file."""
        self.path = find_index(self.run)

    @contextmanager
    def open(self) -> Iterator[sqlite3.Connection]:
        """Open the index for reading; its rows have names, and all that is read is of one moment."""
        connection = self._connect()
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            yield connection
        finally:
            connection.close()

    def measure_progress(self, connection: sqlite3.Connection) -> float:
        """Return the share of the stored episodes that is indexed, from 0 to 1."""
        size = sum(self.measure_file(split) for split in SPLITS)
        done = connection.execute("SELECT coalesce(sum(high - low), 0) FROM ranges").fetchone()[0]
        # A last line without an end counts as indexed once nothing else is left.
        waiting = [split for number, split in enumerate(SPLITS) if self._is_waiting(connection, number, split)]
        return 1.0 if not waiting else min(done / size, 0.999) if size else 1.0

    def measure_file(self, split: str) -> int:
        """Return the size of the store of a split in bytes."""
        try:
            return (self.run / "episodes" / f"{split}.jsonl").stat().st_size
        except OSError:
            return 0

    def _is_waiting(self, connection: sqlite3.Connection, number: int, split: str) -> bool:
        size = self.measure_file(split)
        known = connection.execute("SELECT size FROM files WHERE split=?", (number,)).fetchone()
        if known is None or known[0] != size:
            return size > 0
        found = connection.execute("SELECT low FROM ranges WHERE split=?", (number,)).fetchall()
        return [row[0] for row in found] not in ([0], [])

    def _connect(self) -> sqlite3.Connection:
        if self.path.is_file():
            try:
                connection = sqlite3.connect(f"file:{self.path}?mode=rw", uri=True, isolation_level=None, timeout=10)
                connection.execute("PRAGMA query_only=1")
                if connection.execute("PRAGMA user_version").fetchone()[0] == VERSION:
                    return connection
                connection.close()
            except sqlite3.DatabaseError:
                # It is damaged, and will be made again.
                pass
        connection = sqlite3.connect(":memory:", isolation_level=None)
        make_tables(connection)
        return connection
