"""Deleting indexes that were not used for a month."""

from __future__ import annotations

import fcntl
import time
from contextlib import suppress
from pathlib import Path

from astuner_logview.index.places import find_cache
from astuner_logview.index.schema import delete_index

UNUSED_S = 30 * 24 * 3600


def delete_unused() -> None:
    """Delete the indexes whose lock was last taken a month ago, those of earlier versions and deleted runs among them."""
    for lock in find_cache().glob("*.lock"):
        # Another server may delete it at the same time.
        with suppress(OSError):
            if time.time() - lock.stat().st_mtime > UNUSED_S:
                _delete(lock)


def _delete(lock: Path) -> None:
    """Delete an index and its lock; raises OSError if a server holds it."""
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        delete_index(lock.with_suffix(".sqlite"))
        lock.unlink()
