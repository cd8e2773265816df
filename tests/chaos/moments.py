"""Moments in the life of a run, read off its directory while it runs."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from pathlib import Path

from supervised_run import Moment


def count_lines(path: Path) -> int:
    """Return how many complete lines a file has that somebody writes."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def has_stored(split: str, records: int) -> Moment:
    """When so many records of a split are in the store: episodes, and one with the verdicts of each group."""
    return lambda run: count_lines(run / "episodes" / f"{split}.jsonl") >= records


def exists(name: str) -> Moment:
    """When a file or directory of the run is there."""
    return lambda run: (run / name).exists()


def is_running(run: Path) -> bool:
    """When `state.json` says so."""
    try:
        return json.loads((run / "state.json").read_text(encoding="utf-8")).get("status") == "running"
    except (OSError, ValueError):
        return False


EPISODES = 12
GROUPS = 3
RECORDS = EPISODES + GROUPS
"""Of a step."""

MOMENTS: Mapping[str, Moment] = {
    "starting": exists("lock"),
    "running": is_running,
    "first_validation": has_stored("validation", 3),
    "first_step": has_stored("train", 2),
    "second_step": has_stored("train", RECORDS + 4),
    "metrics_row": lambda run: count_lines(run / "metrics.jsonl") >= 2,
    "writing_a_checkpoint": exists("checkpoints/writing_2"),
    "checkpoint_written": exists("checkpoints/step_2"),
    "validation_of_a_checkpoint": has_stored("validation", 8),
    "third_step": has_stored("train", 2 * RECORDS + 5),
    "writing_the_last_checkpoint": exists("checkpoints/writing_4"),
}


def choose_moment(rng: random.Random) -> Moment:
    """Return a moment somewhere in the run."""
    return has_stored("train", rng.randint(1, 4 * RECORDS - 1))
