"""Reading one record of a store by its place in the index."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.contract.schema import Episode
from astuner.runs.store.codec import load_episode, load_verdict
from astuner.runs.store.store_lines import UNREADABLE, read_line
from astuner.shared.private_files import open_regular
from astuner_logview.index.file_blocks import read_exactly
from astuner_logview.index.record_outline import read_outline
from astuner_logview.index.schema import SPLITS

GONE = (OSError, EOFError, *UNREADABLE)
"""What reading a record raises that is no longer where the index saw it."""


def read_episode(run: Path, row: sqlite3.Row) -> Episode:
    """Return an episode with its verdict; raises one of `GONE`."""
    record = read_line(read_bytes(run, row["split"], row["offset"], row["length"]))["episode"]
    if record["id"] != row["id"]:
        raise ValueError("another episode is there now")
    episode = load_episode(record)
    data = read_stored_verdict(run, row)
    verdict = load_verdict(data)
    return episode if verdict is None else episode.with_verdict(verdict)


def read_episode_outline(run: Path, row: sqlite3.Row) -> dict[str, Any]:
    """Return an episode without its tokens; raises one of `GONE`."""
    record: dict[str, Any] = read_outline(read_bytes(run, row["split"], row["offset"], row["length"]))["episode"]
    if record["id"] != row["id"]:
        raise ValueError("another episode is there now")
    return record


def read_stored_verdict(run: Path, row: sqlite3.Row) -> Mapping[str, Any] | None:
    """Return the verdict that was stored after an episode; None if there is none. Raises one of `GONE`."""
    if row["verdict_offset"] is None:
        return None
    record = read_line(read_bytes(run, row["split"], row["verdict_offset"], row["verdict_length"]))
    found: Mapping[str, Any] = record["verdicts"][row["id"]]
    return found


def read_bytes(run: Path, split: int, offset: int, length: int) -> bytes:
    """Return bytes of the store of a split."""
    file = open_regular(run / "episodes" / f"{SPLITS[split]}.jsonl")
    try:
        return read_exactly(file, offset, length)
    finally:
        os.close(file)
