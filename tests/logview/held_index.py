"""An index that grows only when a test says so: the lock by which two viewers share an index is held."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from astuner.shared.private_files import open_private
from astuner_logview.index.places import find_index
from astuner_logview.index.reader import IndexReader
from astuner_logview.index.writer import IndexWriter


class HeldIndex:
    """The index of a run that no viewer writes until it is released."""

    def __init__(self, run: Path) -> None:
        self._run = run.resolve()
        self._lock: IO[str] = open_private(find_index(self._run).with_suffix(".lock"), "a+")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def grow(self) -> None:
        """Index the newest lines, one by one, until an episode is among them."""
        writer, reader = IndexWriter(self._run, find_index(self._run), block=1, first_block=1), IndexReader(self._run)
        count = 0
        while not count:
            writer.advance()
            with reader.open() as connection:
                count = connection.execute("SELECT count(*) FROM episodes").fetchone()[0]
        writer.close()

    def release(self) -> None:
        """Let the viewer make the rest."""
        self._lock.close()
