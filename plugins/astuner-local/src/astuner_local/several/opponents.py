"""Which earlier weights of a run answer as opponents."""

from __future__ import annotations

from pathlib import Path

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import RunInfo
from astuner.runs.store.directory import RunDirectory
from astuner.settings.config.model import Opponent


def find_opponents(run: RunInfo, step: int) -> dict[str, str | None]:
    """Return, by target tag, the directory of the weights that answer after a step, None for the model without adapters.

    Only checkpoints that are due by `trainer_common.save_freq` before the step count, so that a run that was stopped, and saved
    then, goes on as one that was not. Raises `RunFailed` for one that is gone.
    """
    found: dict[str, str | None] = {}
    for tag, opponent in run.config.model.opponents.items():
        due = _find_due_step(opponent, step, run.config.trainer_common.save_freq)
        if due:
            place = RunDirectory(run.directory).checkpoint(due) / (opponent.adapter or "")
            if not place.is_dir():
                raise RunFailed(f"{place} is gone, with which the opponent {tag!r} answers: put it back, or start a new run")
            found[tag] = str(place)
        else:
            found[tag] = None if opponent.adapter else run.config.model.path
    return found


def read_version(place: str | None) -> int:
    """Return the version of an opponent's weights: the step that they were saved after, 0 for those at the start."""
    folders = Path(place).parts[-2:] if place is not None else ()
    return next((int(name[5:]) for name in folders if name.startswith("step_") and name[5:].isdigit()), 0)


def _find_due_step(opponent: Opponent, step: int, save_freq: int) -> int:
    if opponent.checkpoint == "latest":
        return max(0, step - 1) // save_freq * save_freq if save_freq > 0 else 0
    return opponent.checkpoint if opponent.checkpoint < step else 0
