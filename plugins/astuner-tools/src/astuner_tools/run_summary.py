"""A run in one line: how far it is, what it has learnt, and what it took."""

from __future__ import annotations

import os
from pathlib import Path

from attrs import frozen

from astuner.runs.inspection.run import Run
from astuner.runs.store.metric_rows import read_curve

REWARD = "reward/mean"
VALIDATION = "val/reward/mean"
TIME = "time/step_s"
TOKENS = "tokens/generated"
PLANNED = "total_training_steps"


@frozen(kw_only=True)
class Summary:
    """The outcome of a run; None where nothing is recorded."""

    name: str
    path: str
    status: str
    detail: str
    """The reason of a failure, or what is not known of the state."""
    backbone: str | None
    steps: int
    """Training steps that were finished."""
    planned_steps: int | None
    """`trainer_common.total_training_steps`, if it is set."""
    first_reward: float | None
    last_reward: float | None
    best_validation: float | None
    """The highest `val/reward/mean`."""
    best_step: int | None
    """The steps that were trained before it."""
    best_kept: bool
    """Whether its weights are still there: a checkpoint, or the model that the run began with."""
    time_s: float
    """Of all training steps together."""
    tokens: int
    """Sampled in training."""
    disk_bytes: int
    """Of its directory, most of them checkpoints."""
    started: str | None
    """When its first attempt began."""


def summarise(run: Run) -> Summary:
    """Read what there is of a run."""
    rows = run.read_rows((REWARD, VALIDATION, TIME, TOKENS))
    state, facts = run.state, run.facts
    rewards, validations = read_curve(rows, REWARD), read_curve(rows, VALIDATION)
    best = max(validations, key=lambda point: point[1], default=None)
    attempts = facts.get("attempts") or [{}]
    time_s, tokens = (sum(value for _, value in read_curve(rows, name)) for name in (TIME, TOKENS))
    return Summary(
        name=run.name,
        path=str(run.path.absolute()),
        status=state.status,
        detail=state.detail,
        backbone=facts.get("backbone"),
        steps=max((row["step"] for row in rows if row["kind"] == "train"), default=0),
        # Earlier versions recorded it in the configuration alone, which takes far longer to read.
        planned_steps=(facts if PLANNED in facts else run.config.get("trainer_common", {})).get(PLANNED),
        first_reward=rewards[0][1] if rewards else None,
        last_reward=rewards[-1][1] if rewards else None,
        best_validation=best[1] if best else None,
        best_step=best[0] if best else None,
        best_kept=best is not None and (best[0] == 0 or best[0] in run.directory.list_saved_steps()),
        time_s=time_s,
        tokens=int(tokens),
        disk_bytes=_measure(run.path),
        started=attempts[0].get("started"),
    )


def _measure(directory: Path) -> int:
    """Return the size of a directory's files, some of which a run may delete meanwhile."""
    files = [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]
    return sum(os.lstat(file).st_size for file in files if os.path.lexists(file))
