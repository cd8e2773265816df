"""Reading an index while it is made."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import define, field

from astuner_logview.errors import Rebuilding
from astuner_logview.index.places import find_index
from astuner_logview.index.schema import SPLITS, VERSION, delete_index, is_damage, make_tables

DAMAGED = "the index of its episodes was damaged, and is made again"
BEGUN_S = 2.0  # after its maker has taken the lock, an index has tables


@define(eq=False)
class IndexReader:
    """The index of one run. Without one, or with one that another version has made, every query finds nothing."""

    run: Path
    problems: list[str] = field(factory=list)
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
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._discard()
            raise Rebuilding(DAMAGED, "look again in a few seconds") from error
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
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version == VERSION:
                    return connection
                connection.close()
                if version == 0 and time.time() - self.path.with_suffix(".lock").stat().st_mtime > BEGUN_S:
                    self._discard()
            except (sqlite3.DatabaseError, OSError) as error:
                # Or somebody has emptied the cache.
                if is_damage(error):
                    self._discard()
        connection = sqlite3.connect(":memory:", isolation_level=None)
        make_tables(connection)
        return connection

    def _discard(self) -> None:
        """Delete a damaged index: the process that makes indexes makes one where there is none."""
        delete_index(self.path)
        if DAMAGED not in self.problems:
            self.problems.append(DAMAGED)
