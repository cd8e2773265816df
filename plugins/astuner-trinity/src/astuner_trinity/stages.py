"""The stages of a run in its own steps, and whether an unfinished one can continue."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from astuner.contract.errors import UsageError
from astuner.settings.config.trees import get

STAGES = "stage_meta.json"
"""Where Trinity stores its current stage."""
STEPPING = ("both", "colocate", "train", "explore")
BUFFER = "buffer.trainer_input.experience_buffer"
STEPS_BEFORE = "steps_before"
"""In a taskset's `workflow_args`: the run's step before its stage."""


def stage_offsets(tree: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return, for each stage, the run's step before it and its number of steps; empty for a run without stages."""
    found: dict[str, tuple[int, int]] = {}
    after = 0
    for stage in tree["stages"]:
        trains = (stage.get("mode") or tree["mode"]) in STEPPING
        steps = ((stage.get("trainer") or {}).get("total_steps") or tree["trainer"]["total_steps"]) if trains else 0
        found[stage["stage_name"]] = (after, steps)
        after += steps
    return found


def name_steps_before(tree: dict[str, Any], offsets: Mapping[str, tuple[int, int]]) -> None:
    """Give the tasksets of each stage the run's step before it, by which they name episodes: Trinity counts each stage from 1."""
    for stage in tree["stages"]:
        before, _ = offsets[stage["stage_name"]]
        # Not the run's own section, which other stages share.
        buffer = stage["buffer"] = copy.deepcopy(stage.get("buffer") or tree["buffer"])
        explorer = buffer["explorer_input"]
        for taskset in (explorer["taskset"], *(explorer.get("eval_tasksets") or ())):
            taskset["workflow_args"] = {**(taskset.get("workflow_args") or {}), STEPS_BEFORE: before}


def stage_after(step: int, offsets: Mapping[str, tuple[int, int]]) -> int:
    """Return the index of the first stage that is unfinished after a step of the run."""
    return next((at for at, (after, own) in enumerate(offsets.values()) if step < after + own or not own), len(offsets))


def last_begun_stage(path: Path) -> int:
    """Return the index of the last stage that Trinity has started."""
    try:
        return int(json.loads(path.read_text(encoding="utf-8"))["latest_stage"])
    except (OSError, ValueError, KeyError, RecursionError):
        return 0


def check_buffers(tree: Mapping[str, Any], first: int, last: int) -> None:
    """Raise `UsageError` if rows were written or read since the checkpoint, and cannot be again.

    `first` is the index of the stage that the run continues with, `last` of the one that it had reached.
    """
    for stage in tree["stages"][first : last + 1] if tree["stages"] else [{}]:
        mode = stage.get("mode") or tree["mode"]
        buffer = get(stage, BUFFER) or get(tree, BUFFER) or {}
        storage, where = buffer.get("storage_type"), buffer.get("path") or "the experience buffer"
        again = "Start again with another experiment_name and an empty one"
        if mode == "explore" and storage in ("sql", "file"):
            raise UsageError(
                f"{where}: holds the rows of the steps that were played, and they would be written a second time. {again}"
            )
        if mode in ("both", "colocate", "train") and storage == "sql":
            raise UsageError(
                f"{where}: rows of a table are marked when they are read, so a run over it cannot continue from a checkpoint "
                f"without losing or doubling some. {again}, or train over a queue (mode both)"
            )
