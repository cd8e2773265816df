"""The process that makes indexes: it ends with the server, whose end closes its input."""

from __future__ import annotations

import fcntl
import json
import math
import os
import sqlite3
import sys
import threading
import time
from pathlib import Path
from typing import IO

from attrs import define, field

from astuner.shared.private_files import open_private
from astuner_logview.index.places import find_cache, find_index
from astuner_logview.index.unused import delete_unused
from astuner_logview.index.writer import IndexWriter

POLL_S = 0.25
"""Between two looks at the files, while nothing is new."""
AGAIN_S = 10.0
"""After a failure."""
SMALL = 300 * 2**20
"""Bytes: a larger store is indexed when somebody opens its run."""


FILES = ("run.json", "config.yaml", "episodes/train.jsonl", "episodes/validation.jsonl")

Signs = tuple[tuple[int, int, int] | None, ...]


@define(eq=False)
class Task:
    """A run to index."""

    run: Path
    wanted: bool = False
    """Whether somebody looks at it."""
    _seen: Signs | None = field(default=None, init=False)
    """What the files looked like when nothing was left to index."""
    _again_at: float = field(default=math.inf, init=False)
    _writer: IndexWriter | None = field(default=None, init=False)
    _lock: IO[str] | None = field(default=None, init=False)

    def advance(self) -> bool:
        """Index one block; return whether there was one. What fails is reported on standard output.

        Nothing is done while another server's process makes the index.
        """
        signs = self._sign()
        if (signs == self._seen and time.monotonic() < self._again_at) or (not self.wanted and self._measure() > SMALL):
            return False
        try:
            writer = self._open()
            if writer is None or writer.advance():
                return writer is not None
            if self._again_at < math.inf:
                _report(self.run, "")
            self._seen, self._again_at = signs, math.inf
            return False
        except (OSError, sqlite3.Error) as error:
            # It is tried again when a file changes, and after a while: there may be space again.
            self._seen, self._again_at = self._sign(), time.monotonic() + AGAIN_S
            _report(self.run, f"its episodes cannot be indexed: {error}; indexes are in {find_cache()} (XDG_CACHE_HOME)")
            self.close()
            return False

    def close(self) -> None:
        """Let go of the index."""
        if self._writer is not None:
            self._writer.close()
        if self._lock is not None:
            self._lock.close()
        self._writer = self._lock = None

    def _open(self) -> IndexWriter | None:
        if self._writer is None:
            path = find_index(self.run)
            lock: IO[str] = open_private(path.with_suffix(".lock"), "a+")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.close()
                return None
            # When it was last used: `delete_unused`.
            os.utime(lock.fileno())
            self._lock, self._writer = lock, IndexWriter(self.run, path)
        elif not self._writer.path.exists():
            # Somebody has emptied the cache, or found the index damaged. A new one may get the same inode.
            self._seen = None
            self.close()
            return None
        return self._writer

    def _sign(self) -> Signs:
        """Return what changes with the files that an index is made of, and with the index."""
        return tuple(map(_sign_file, (find_index(self.run), *(self.run / name for name in FILES))))

    def _measure(self) -> int:
        try:
            return sum(file.stat().st_size for file in (self.run / "episodes").glob("*.jsonl"))
        except OSError:
            return 0


def _report(run: Path, problem: str) -> None:
    """Report what is wrong with the index of a run; an empty text takes it back."""
    print(json.dumps({"run": str(run), "problem": problem}), flush=True)


def _sign_file(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    # An index changes while it is read; whether it is there is enough.
    return (found.st_ino, 0, 0) if path.suffix == ".sqlite" else (found.st_ino, found.st_mtime_ns, found.st_size)


def work() -> None:
    """Index the runs that standard input names, those that are looked at first, until it ends."""
    os.nice(5)
    delete_unused()
    tasks: dict[Path, Task] = {}
    changed = threading.Event()
    threading.Thread(target=_listen, args=(tasks, changed), daemon=True).start()
    while True:
        changed.clear()
        # After each block the most wanted run is looked at again.
        ordered = sorted(tasks.values(), key=lambda task: not task.wanted)
        if not any(task.advance() for task in ordered):
            changed.wait(POLL_S)


def _listen(tasks: dict[Path, Task], changed: threading.Event) -> None:
    for line in sys.stdin:
        message = json.loads(line)
        run = Path(message["run"])
        task = tasks.setdefault(run, Task(run))
        task.wanted = message["wanted"]
        changed.set()
    # What is in a transaction is rolled back, and indexed again at the next start.
    os._exit(0)


if __name__ == "__main__":
    work()
