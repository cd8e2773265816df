"""The episodes that were looked at last, decoded."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from pathlib import Path

from attrs import define, field

from astuner.contract.schema import Episode
from astuner_logview.errors import Missing
from astuner_logview.index.record_reading import GONE, read_episode

MOST_BYTES = 24 * 2**20
"""Of lines in the store: decoded, an episode takes about half of its line."""

Key = tuple[Path, int, int, int, int | None]


@define(eq=False)
class EpisodeCache:
    """Keeps a few episodes. Threads may share it."""

    _found: OrderedDict[Key, tuple[int, Episode]] = field(factory=OrderedDict, init=False)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)

    def read(self, run: Path, row: sqlite3.Row) -> Episode:
        """Return the episode of a row of the index; raises `Missing` if it is no longer in the store."""
        key = (run, row["split"], row["offset"], row["length"], row["verdict_offset"])
        with self._lock:
            if (known := self._found.get(key)) is not None:
                self._found.move_to_end(key)
                return known[1]
        try:
            episode = read_episode(run, row)
        except GONE as error:
            raise Missing(
                f"the episode '{row['id']}' is damaged or no longer there", "the index will leave it out soon"
            ) from error
        with self._lock:
            self._found[key] = row["length"], episode
            while len(self._found) > 1 and sum(size for size, _ in self._found.values()) > MOST_BYTES:
                self._found.popitem(last=False)
        return episode
