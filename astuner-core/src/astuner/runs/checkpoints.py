"""Which checkpoints are kept, and finding one by the name that a user gives it."""

from __future__ import annotations

import shutil
from pathlib import Path

from astuner.errors import UsageError
from astuner.runs.directory import RunDirectory


def begin_checkpoint(directory: RunDirectory, step: int) -> Path:
    """Return an empty directory to write a checkpoint into; it counts only once `finish_checkpoint` has named it."""
    path = directory.checkpoints / f"writing_{step}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


def finish_checkpoint(directory: RunDirectory, step: int) -> Path:
    """Give a complete checkpoint its name, and return its path."""
    from astuner.runs.atomic import explain_os_errors, sync_directory

    written, final = directory.checkpoints / f"writing_{step}", directory.checkpoint(step)
    with explain_os_errors(final):
        if final.exists():
            shutil.rmtree(final)
        written.rename(final)
        sync_directory(directory.checkpoints)
    return final


def prune_checkpoints(directory: RunDirectory, *, keep: int | None, best: int | None) -> None:
    """Delete the oldest checkpoints beyond `keep`; the best one stays."""
    if keep is None or keep <= 0:
        return
    for step in directory.list_saved_steps()[:-keep]:
        if step != best:
            shutil.rmtree(directory.checkpoint(step))


def find_checkpoint(directory: RunDirectory, name: str) -> Path:
    """Return the checkpoint that `best`, `last` or a step number names."""
    steps = directory.list_saved_steps()
    if not steps:
        raise UsageError(f"{directory.path}: holds no checkpoint yet")
    if name == "last":
        return directory.checkpoint(steps[-1])
    if name == "best":
        best = directory.state.get("best", {}).get("step")
        if best is None or best not in steps:
            raise UsageError(
                f"{directory.path}: no best checkpoint is known: it needs trainer_common.keep_best and validation (test_freq); "
                f"there are last and {', '.join(map(str, steps))}"
            )
        return directory.checkpoint(best)
    if name.isdigit() and int(name) in steps:
        return directory.checkpoint(int(name))
    raise UsageError(f"{directory.path}: no checkpoint '{name}'; there are best, last and {', '.join(map(str, steps))}")
