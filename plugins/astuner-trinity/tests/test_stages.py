"""Where a run of stages goes on, and which cannot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import UsageError
from astuner_trinity.stages import STAGES, check_buffers, last_begun_stage, stage_after, stage_offsets

TABLE = {"storage_type": "sql", "path": "sqlite:///rows.db"}
QUEUE = {"storage_type": "queue", "path": None}


def section(buffer: dict[str, Any]) -> dict[str, Any]:
    return {"trainer_input": {"experience_buffer": buffer}}


def run_of(mode: str, buffer: dict[str, Any], *stages: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    """Return a run of 3 steps, or of stages of 3 steps."""
    made = [{"stage_name": f"s{place}", "mode": mode, "buffer": section(own)} for place, (mode, own) in enumerate(stages)]
    return {"mode": mode, "stages": made, "buffer": section(buffer), "trainer": {"total_steps": 3}}


@pytest.mark.parametrize(("step", "place"), [(0, 0), (2, 0), (3, 1), (5, 1), (6, 2)])
def test_a_run_goes_on_in_the_stage_that_its_checkpoint_lies_in(step: int, place: int) -> None:
    offsets = stage_offsets(run_of("both", QUEUE, ("explore", TABLE), ("train", TABLE), ("bench", QUEUE)))
    assert offsets == {"s0": (0, 3), "s1": (3, 3), "s2": (6, 0)}
    assert stage_after(step, offsets) == place


@pytest.mark.parametrize(
    ("tree", "first", "last", "said"),
    [
        (run_of("train", TABLE), 0, 0, "rows.db: rows of a table are marked when they are read"),
        (run_of("explore", TABLE), 0, 0, "rows.db: holds the rows of the steps that were played"),
        (run_of("explore", {"storage_type": "file", "path": "x.jsonl"}), 0, 0, "x.jsonl: holds the rows"),
        # Killed while its table was read, though the run itself has a queue.
        (run_of("both", QUEUE, ("explore", TABLE), ("train", TABLE)), 1, 1, "marked when they are read"),
        # Without a checkpoint it begins where the table is filled.
        (run_of("both", QUEUE, ("explore", TABLE), ("train", TABLE)), 0, 1, "holds the rows"),
    ],
)
def test_rows_are_neither_lost_nor_doubled_by_going_on(tree: dict[str, Any], first: int, last: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        check_buffers(tree, first, last)


@pytest.mark.parametrize(
    ("tree", "first", "last"),
    [
        (run_of("both", QUEUE), 0, 0),
        (run_of("explore", QUEUE), 0, 0),
        (run_of("bench", TABLE), 0, 0),
        # What read its table is over, and what will has not begun.
        (run_of("both", QUEUE, ("train", TABLE), ("both", QUEUE), ("train", TABLE)), 1, 1),
        # The run's own buffer is none of a stage's.
        (run_of("train", TABLE, ("both", QUEUE)), 0, 0),
    ],
)
def test_a_run_whose_rows_are_not_touched_goes_on(tree: dict[str, Any], first: int, last: int) -> None:
    check_buffers(tree, first, last)


def test_trinity_says_which_stage_it_had_come_to(tmp_path: Path) -> None:
    assert last_begun_stage(tmp_path / STAGES) == 0
    (tmp_path / STAGES).write_text(json.dumps({"latest_stage": 2}))
    assert last_begun_stage(tmp_path / STAGES) == 2
