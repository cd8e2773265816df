"""Which checkpoints are kept, and finding one by the name that a user gives it."""

from __future__ import annotations

import shutil
from pathlib import Path

from astuner.errors import UsageError
from astuner.runs.atomic import explain_os_errors, sync_directory
from astuner.runs.directory import RunDirectory


def begin_checkpoint(directory: RunDirectory, step: int) -> Path:
    """Return an empty directory to write a checkpoint into; it counts only once `finish_checkpoint` has named it."""
    path = directory.checkpoints / f"writing_{step}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def finish_checkpoint(directory: RunDirectory, step: int) -> Path:
    """Give a complete checkpoint its name, and return its path."""
    written, final = directory.checkpoints / f"writing_{step}", directory.checkpoint(step)
    with explain_os_errors(final):
        if final.exists():
            shutil.rmtree(final)
        written.rename(final)
        sync_directory(directory.checkpoints)
    return final


def record_validation(directory: RunDirectory, step: int, metric: str, value: float) -> None:
    """Record what a validation of a step's weights gave; it counts for the best checkpoint once there is one of that step."""
    directory.write_state(validations={**directory.state.get("validations", {}), str(step): {"metric": metric, "value": value}})


def forget_validations(directory: RunDirectory, after: int) -> None:
    """Forget the validations of steps that a resumed run repeats."""
    known = directory.state.get("validations", {})
    if any(int(step) > after for step in known):
        directory.write_state(validations={step: found for step, found in known.items() if int(step) <= after})


def find_best_step(directory: RunDirectory) -> int | None:
    """Return the step with the highest validation among those whose checkpoint is complete, the first of equals; or None.

    Nothing but the validations and the checkpoints that there are decides, so a crash between the two loses neither.
    """
    validations = directory.state.get("validations", {})
    steps = [step for step in directory.list_saved_steps() if str(step) in validations]
    return max(steps, key=lambda step: validations[str(step)]["value"], default=None)


def prune_checkpoints(directory: RunDirectory, *, keep: int | None) -> None:
    """Delete the oldest checkpoints beyond `keep`; the best one stays."""
    for leftover in directory.checkpoints.glob("deleting_*"):
        shutil.rmtree(leftover, ignore_errors=True)
    if keep is None or keep <= 0:
        return
    best = find_best_step(directory)
    for step in directory.list_saved_steps()[:-keep]:
        if step != best:
            # Under another name first: half a checkpoint must not pass for one. What a file system still holds on to
            # is deleted the next time.
            with explain_os_errors(directory.checkpoints):
                doomed = directory.checkpoint(step).rename(directory.checkpoints / f"deleting_{step}")
            shutil.rmtree(doomed, ignore_errors=True)


def find_checkpoint(directory: RunDirectory, name: str) -> Path:
    """Return the checkpoint that `best`, `last` or a step number names."""
    steps = directory.list_saved_steps()
    if not steps:
        raise UsageError(f"{directory.path}: holds no checkpoint yet")
    if name == "last":
        return directory.checkpoint(steps[-1])
    if name == "best":
        best = find_best_step(directory)
        if best is None:
            raise UsageError(
                f"{directory.path}: no best checkpoint is known: it needs trainer_common.keep_best and validation (test_freq); "
                f"there are last and {', '.join(map(str, steps))}"
            )
        return directory.checkpoint(best)
    if name.isdigit() and int(name) in steps:
        return directory.checkpoint(int(name))
    raise UsageError(f"{directory.path}: no checkpoint '{name}'; there are best, last and {', '.join(map(str, steps))}")
