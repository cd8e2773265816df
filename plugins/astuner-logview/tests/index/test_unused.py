"""Indexes that were not used for a month are deleted, unless a server holds them."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from astuner_logview.index.places import find_cache, find_index
from astuner_logview.index.unused import UNUSED_S, delete_unused


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def write_index(run: str, *, unused_s: float) -> Path:
    """Return the path of an index that was last used some seconds ago."""
    index = find_index(Path(run))
    for path in (index, index.with_name(index.name + "-wal"), index.with_suffix(".lock")):
        path.write_bytes(b"")
    used = time.time() - unused_s
    os.utime(index.with_suffix(".lock"), (used, used))
    return index


def test_an_index_that_was_not_used_for_a_month_is_deleted() -> None:
    write_index("/old", unused_s=UNUSED_S + 60)

    delete_unused()

    assert list(find_cache().iterdir()) == []


def test_an_index_that_was_used_within_a_month_stays() -> None:
    index = write_index("/new", unused_s=UNUSED_S - 60)

    delete_unused()

    assert index.exists()


def test_an_index_that_a_server_holds_stays() -> None:
    index = write_index("/held", unused_s=UNUSED_S + 60)

    with index.with_suffix(".lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        delete_unused()

    assert index.exists()
