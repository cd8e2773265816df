"""What a run does with the events of a backbone: logs, keeps state and checkpoints, and ends a run that learns nothing."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from astuner.driver.reporting import Loggers
from astuner.errors import RunFailed
from astuner.protocols import RunInfo
from astuner.runs.checkpoints import prune_checkpoints
from astuner.runs.directory import RunDirectory
from astuner.schema import CheckpointSaved, Event, Group, Notice, StepReport, ValidationReport

if TYPE_CHECKING:
    from astuner.driver.control import RunControl
    from astuner.plugins.hooks import Hooks

STEPS_WITHOUT_SIGNAL = 20
"""The run ends after this many steps in a row in which no token has a non-zero advantage."""


@define(eq=False)
class Progress:
    """How far a run is, and its validations."""

    step: int = 0
    before: Mapping[str, float] | None = None
    """Metrics of the validation before training."""
    after: Mapping[str, float] | None = None
    """Metrics of the last validation."""
    before_groups: tuple[Group, ...] = ()
    after_groups: tuple[Group, ...] = ()
    _without_signal: int = field(default=0, init=False)

    def check_signal(self, report: StepReport) -> None:
        """Raise `RunFailed` after too many steps in a row without signal."""
        if "signal/tokens_nonzero_advantage" not in report.metrics:
            return
        self._without_signal = 0 if report.metrics["signal/tokens_nonzero_advantage"] else self._without_signal + 1
        if self._without_signal < STEPS_WITHOUT_SIGNAL:
            return
        waterfall = ", ".join(f"{k.removeprefix('signal/')} {v:g}" for k, v in report.metrics.items() if k.startswith("signal/"))
        raise RunFailed(
            f"no token had a non-zero advantage in {STEPS_WITHOUT_SIGNAL} steps in a row, so nothing can be learnt: all "
            f"siblings of a task get the same reward ({report.metrics.get('reward/mean', float('nan')):g} on average). Check "
            "the judge, choose tasks that are sometimes solved, or raise rollout.num_repeat or temperature. "
            f"Last step: {waterfall}"
        )


def drive(
    events: Generator[Event],
    *,
    run_info: RunInfo,
    directory: RunDirectory,
    loggers: Loggers,
    hooks: Hooks,
    control: RunControl,
    progress: Progress,
) -> None:
    """Consume a backbone's events to their end."""
    trainer = run_info.config.trainer_common
    # Even after an error here, the backbone's `finally` blocks run before anything else is closed.
    with closing(events):
        for event in events:
            match event:
                case StepReport():
                    progress.step = event.step
                    loggers.log(event.step, event.metrics)
                    loggers.log_episodes(event.step, event.groups)
                    _report_groups(hooks, event.groups)
                    hooks.step_finished(event)
                    directory.write_state(step=event.step)
                    progress.check_signal(event)
                case ValidationReport():
                    if progress.before is None and event.step == 0:
                        progress.before, progress.before_groups = event.metrics, event.groups
                    progress.after, progress.after_groups = event.metrics, event.groups
                    loggers.log(event.step, event.metrics)
                    loggers.log_episodes(event.step, event.groups)
                    if trainer.keep_best:
                        _record_best(directory, event)
                    _report_groups(hooks, event.groups)
                    hooks.validation_finished(event)
                case CheckpointSaved():
                    control.store.sync()
                    directory.write_state(checkpoint=event.step)
                    best = directory.state.get("best", {}).get("step")
                    prune_checkpoints(directory, keep=trainer.max_checkpoints_to_keep, best=best)
                    hooks.checkpoint_saved(event.step, Path(event.path))
                case Notice():
                    control.notify(event.text, event.level)


def _report_groups(hooks: Hooks, groups: Sequence[Group]) -> None:
    for group in groups:
        hooks.group_judged(group)
        for episode in group.episodes:
            hooks.episode_finished(episode)


def _record_best(directory: RunDirectory, report: ValidationReport) -> None:
    """Record the best validation so far; the backbone saves a checkpoint after each validation when `keep_best` is on."""
    value = report.metrics.get("val/reward/mean")
    best = directory.state.get("best")
    if value is not None and report.step > 0 and (best is None or value > best["value"]):
        directory.write_state(best={"step": report.step, "metric": "val/reward/mean", "value": value})
