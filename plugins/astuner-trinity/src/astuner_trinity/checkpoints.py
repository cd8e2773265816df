"""Trinity's checkpoints as checkpoints of the run, and restoring its directory to one."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

from astuner.contract.errors import UsageError
from astuner.runs.store.checkpoints import begin_checkpoint, finish_checkpoint
from astuner.runs.store.directory import RunDirectory
from astuner.shared.private_files import FILE_MODE

LATEST = "latest_checkpointed_iteration.txt"
LATEST_WEIGHTS = "latest_state_dict_iteration.txt"
STATE = "trinity.json"
"""In a checkpoint: where Trinity stores the state for continuing."""


def read_saved_step(job: Path) -> int:
    """Return the step of the last checkpoint that Trinity has finished; 0 if there is none."""
    try:
        return int((job / LATEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0


def adopt(directory: RunDirectory, job: Path, step: int, *, named: int | None = None) -> Path | None:
    """Make a checkpoint of the run from one of Trinity's; None if its model is missing, as on another machine's disk.

    Files are linked if the file system allows, to save space. `named` is the run's step, if there are earlier
    stages.
    """
    source = _find_model(job / f"global_step_{step}" / "actor")
    if source is None:
        return None
    number = step if named is None else named
    written = begin_checkpoint(directory, number)
    for file in sorted(source.iterdir()):
        if file.is_file():
            _link(file, written / file.name)
    (written / STATE).write_text(json.dumps({"job": str(job), "step": step}), encoding="utf-8")
    return finish_checkpoint(directory, number)


def turn_back(job: Path, step: int, *, explorer: str, trainer: str) -> None:
    """Let Trinity continue from a step: the weights of its checkpoint, the next step's tasks, nothing later.

    Raises `UsageError` if Trinity's part of the checkpoint is gone.
    """
    kept = job / f"global_step_{step}"
    if not (kept / "actor").is_dir():
        raise UsageError(
            f"{kept}: is gone, so training cannot continue from step {step}; trainer_common.max_checkpoints_to_keep may have "
            "removed it"
        )
    for path in job.glob("global_step_*"):
        number = path.name.removeprefix("global_step_")
        if number.isdigit() and int(number) > step:
            shutil.rmtree(path)
    for name in (LATEST, LATEST_WEIGHTS):
        (job / name).write_text(str(step), encoding="utf-8")
    position = {"latest_iteration": step, "taskset_states": [{"current_index": step}]}
    (job / f"{explorer}_meta.json").write_text(json.dumps(position), encoding="utf-8")
    (job / f"{trainer}_meta.json").write_text(
        json.dumps({"latest_iteration": step, "sample_strategy_state": {}}), encoding="utf-8"
    )


def start_over(job: Path) -> None:
    """Remove what Trinity would continue from: checkpoints and positions."""
    for left in ("global_step_*", "*_meta.json", "latest_*.txt", "*_server_url.txt"):
        for path in job.glob(left):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def _find_model(actor: Path) -> Path | None:
    for found in (actor / "lora_adapter", actor / "huggingface"):
        if any(found.glob("*.safetensors")) or any(found.glob("*.bin")):
            return found
    return None


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
    # A file with two names is not closed with the rest of the run directory.
    target.chmod(FILE_MODE)
