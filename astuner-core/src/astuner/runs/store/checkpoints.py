"""Writing checkpoints, which of them are kept, and finding one by the name that a user gives it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

from astuner.contract.errors import UsageError
from astuner.runs.store.atomic import explain_os_errors, sync_directory
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.manifest import DamagedCheckpoint, find_damage, write_manifest


@frozen(kw_only=True)
class FoundCheckpoint:
    """The checkpoint that a run continues from, and those after it that it does not."""

    step: int
    """0: from the start."""
    damaged: tuple[str, ...] = ()
    """What is wrong with later ones, as `PATH/FILE: what`."""


def begin_checkpoint(directory: RunDirectory, step: int) -> Path:
    """Return an empty directory to write a checkpoint into; it counts only once `finish_checkpoint` has named it."""
    path = directory.checkpoints / f"writing_{step}"
    with explain_os_errors(directory.checkpoints):
        # Not its parents: a run directory that was deleted does not come back with one checkpoint in it.
        directory.checkpoints.mkdir(exist_ok=True)
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
    return path


def finish_checkpoint(directory: RunDirectory, step: int) -> Path:
    """Make all files of a checkpoint durable, whoever wrote them, then give it its name; return its path."""
    written, final = directory.checkpoints / f"writing_{step}", directory.checkpoint(step)
    with explain_os_errors(final):
        write_manifest(written)
        if final.exists():
            shutil.rmtree(final)
        written.rename(final)
        sync_directory(directory.checkpoints)
    return final


def record_validation(directory: RunDirectory, step: int, metric: str, value: float) -> None:
    """Record what a validation of a step's weights gave; it counts for the best checkpoint once there is one of that step."""
    directory.write_state(validations={**directory.state.get("validations", {}), str(step): {"metric": metric, "value": value}})


def is_best_validation(directory: RunDirectory, step: int) -> bool:
    """Whether the validation of a step is better than all others, whose weights need not be saved."""
    values = {int(other): found["value"] for other, found in directory.state.get("validations", {}).items()}
    return step in values and all(values[step] > value for other, value in values.items() if other != step)


def mark_as_best_only(directory: RunDirectory, step: int, best_only: bool) -> None:
    """Record whether the checkpoint of a step is saved because it is the best one alone: it goes when a better one is saved."""
    known = set(directory.state.get("best_only", ()))
    if (step in known) != best_only:
        directory.write_state(best_only=sorted(known ^ {step}))


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


def find_better_step(directory: RunDirectory) -> int | None:
    """Return the step of the best checkpoint if its validation was better than that of the last one, or that one has none."""
    best, validations = find_best_step(directory), directory.state.get("validations", {})
    last = validations.get(str(directory.list_saved_steps()[-1])) if best is not None else None
    return None if last is not None and last["value"] >= validations[str(best)]["value"] else best


def find_last_intact(directory: RunDirectory) -> FoundCheckpoint:
    """Return the last checkpoint whose files are as they were written; reads every file of it."""
    damaged: list[str] = []
    for step in reversed(directory.list_saved_steps()):
        path = directory.checkpoint(step)
        damage = find_damage(path)
        if not damage:
            return FoundCheckpoint(step=step, damaged=tuple(damaged))
        more = f" ({len(damage) - 1} more)" if len(damage) > 1 else ""
        damaged.append(f"{path}/{damage[0]}{more}")
    return FoundCheckpoint(step=0, damaged=tuple(damaged))


def check_intact(checkpoint: Path, others: Sequence[Path] = ()) -> None:
    """Raise `DamagedCheckpoint`, naming the file, if a checkpoint is not as it was written; suggest an intact one of `others`."""
    if damage := find_damage(checkpoint):
        intact = next((path for path in reversed(others) if path != checkpoint and not find_damage(path)), None)
        remedy = (
            "no other checkpoint here is intact: copy it again" if intact is None else f"{intact.name} is intact: use that one"
        )
        raise DamagedCheckpoint(checkpoint, damage, remedy)


def list_unfinished(directory: RunDirectory) -> dict[Path, str]:
    """Return what saves that were killed have left: its path, and its name with its size."""
    sizes = {
        path: sum(file.lstat().st_size for file in path.rglob("*")) for path in sorted(directory.checkpoints.glob("writing_*"))
    }
    return {path: f"{path.name} ({size / 1e6:,.1f} MB)" for path, size in sizes.items()}


def delete_unfinished(directory: RunDirectory) -> list[str]:
    """Delete what a save that was killed has left; return it, with its size."""
    found = list_unfinished(directory)
    for path in found:
        shutil.rmtree(path, ignore_errors=True)
    return list(found.values())


def set_aside(directory: RunDirectory, *, after: int) -> None:
    """Take the name from checkpoints of later steps, the last first: a run that goes on from an earlier one repeats them.

    They are deleted once the run has saved that step, or a later one, again.
    """
    with explain_os_errors(directory.checkpoints):
        for step in reversed(directory.list_saved_steps()):
            if step > after:
                aside = directory.checkpoints / f"aside_{step}"
                shutil.rmtree(aside, ignore_errors=True)
                directory.checkpoint(step).rename(aside)
                sync_directory(directory.checkpoints)


def prune_checkpoints(directory: RunDirectory, *, keep: int | None) -> str | None:
    """Delete the oldest checkpoints beyond `keep`, and those set aside; the best one stays.

    Nothing is deleted before the newest one has been read back. Returns a warning if that one is damaged.
    """
    for leftover in directory.checkpoints.glob("deleting_*"):
        shutil.rmtree(leftover, ignore_errors=True)
    saved = directory.list_saved_steps()
    best = find_best_step(directory)
    best_only = directory.state.get("best_only", ())
    due = [step for step in saved if step not in best_only]
    old = {*due[: -keep if keep and keep > 0 else 0], *(step for step in best_only if step in saved)}
    doomed = [directory.checkpoint(step) for step in sorted(old - {best, saved[-1] if saved else None})]
    doomed += [path for path in directory.checkpoints.glob("aside_*") if saved and _read_step(path) <= saved[-1]]
    if not doomed:
        return None
    newest = directory.checkpoint(saved[-1])
    if damage := find_damage(newest):
        return (
            f"{newest}/{damage[0]}, found when it was read back: no earlier checkpoint is deleted. Check the disk; a resume "
            "takes the last intact one"
        )
    for path in doomed:
        # Under another name first: half a checkpoint must not pass for one. What a file system still holds on to
        # is deleted the next time.
        with explain_os_errors(directory.checkpoints):
            going = path.rename(directory.checkpoints / f"deleting_{_read_step(path)}")
        shutil.rmtree(going, ignore_errors=True)
    return None


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
                f"{directory.path}: no best checkpoint is known: no step with one was validated (trainer_common.test_freq); "
                f"there are last and {', '.join(map(str, steps))}"
            )
        return directory.checkpoint(best)
    if name.isdigit() and int(name) in steps:
        return directory.checkpoint(int(name))
    named = "last" if find_best_step(directory) is None else "best, last"
    raise UsageError(f"{directory.path}: no checkpoint '{name}'; there are {named} and {', '.join(map(str, steps))}")


def _read_step(path: Path) -> int:
    number = path.name.rpartition("_")[2]
    return int(number) if number.isdigit() else 0
