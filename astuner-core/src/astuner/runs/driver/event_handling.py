"""What a run does with the events of a backbone: logs, keeps state and checkpoints, and ends a run that learns nothing."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import define, field

from astuner.contract.errors import RunFailed
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import CheckpointSaved, Event, Group, Notice, StepReport, ValidationReport
from astuner.runs.driver.episode_faults import EpisodeFaults
from astuner.runs.driver.replayed_steps import ReplayedSteps, forget_lost_episodes
from astuner.runs.driver.reporting import Loggers
from astuner.runs.driver.run_story import find_cause
from astuner.runs.store.directory import RunDirectory
from astuner.runs.store.kept_tokenizer import keep_tokenizer
from astuner.shared.exhaustion import explain_exhaustion

if TYPE_CHECKING:
    from astuner.runs.driver.control import RunControl
    from astuner.settings.plugins.hooks import Hooks

STEPS_UNTIL_WARNING = 3
"""After this many steps in a row in which no token has a non-zero advantage, a warning says why, once."""
STEPS_WITHOUT_SIGNAL = 20
"""The run ends after this many steps in a row in which no token has a non-zero advantage."""

LOOK = "Siblings of a task get the same reward, or cannot be trained: `astuner run --backbone debug` shows single episodes"
"""What is said of steps without signal where no package says more."""

FIRST_LOOK = 10
"""A running run is looked at after this step, and then whenever it is twice as long."""

RANKED = "val/reward/mean"
"""The metric of a validation that `keep_best` compares."""


@define(eq=False)
class Progress:
    """How far a run is, and its validations."""

    faults: EpisodeFaults
    step: int = 0
    before: Mapping[str, float] | None = None
    """Metrics of the validation before training."""
    after: Mapping[str, float] | None = None
    """Metrics of the last validation."""
    before_groups: tuple[Group, ...] = ()
    after_groups: tuple[Group, ...] = ()
    _without_signal: int = field(default=0, init=False)
    _warned: bool = field(default=False, init=False)

    def check_signal(self, report: StepReport, directory: RunDirectory) -> str | None:
        """Return a warning, once, after a few steps in a row without signal; raise `RunFailed` after too many."""
        if "signal/tokens_nonzero_advantage" not in report.metrics:
            return None
        if report.metrics["signal/tokens_nonzero_advantage"]:
            self._without_signal = 0
            return None
        self._without_signal += 1
        if self._without_signal == STEPS_UNTIL_WARNING and not self._warned:
            self._warned = True
            why = find_cause(directory) or f"no token has an advantage. {LOOK}"
            return f"nothing was learnt in {STEPS_UNTIL_WARNING} steps in a row: {why}"
        if self._without_signal < STEPS_WITHOUT_SIGNAL:
            return None
        waterfall = ", ".join(f"{k.removeprefix('signal/')} {v:g}" for k, v in report.metrics.items() if k.startswith("signal/"))
        raise RunFailed(
            f"no token had a non-zero advantage in {STEPS_WITHOUT_SIGNAL} steps in a row, so nothing can be learnt: "
            f"{find_cause(directory) or LOOK}. Last step: {waterfall}"
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
    replayed: ReplayedSteps,
) -> None:
    """Consume a backbone's events to their end."""
    trainer = run_info.config.trainer_common

    def report_groups(event: StepReport | ValidationReport) -> None:
        loggers.log_episodes(event.step, event.groups)
        for group in event.groups:
            hooks.group_judged(group)
            for episode in group.played:
                hooks.episode_finished(episode)
        for text in progress.faults.add(event.groups):
            control.notify(text, "warning")

    # Even after an error here, the backbone's `finally` blocks run before anything else is closed.
    with explain_exhaustion(), forget_lost_episodes(replayed.store), closing(events):
        has_tokenizer = False
        for event in events:
            # The first event comes after the model was loaded, and so downloaded.
            has_tokenizer = has_tokenizer or keep_tokenizer(directory, run_info.config.model)
            match event:
                case StepReport():
                    event = replayed.correct(event)
                    progress.step = event.step
                    loggers.log(event.step, event.metrics)
                    report_groups(event)
                    hooks.step_finished(event)
                    directory.write_state(step=event.step)
                    if (warning := progress.check_signal(event, directory)) is not None:
                        control.notify(warning, "warning")
                    if _is_diagnosis_due(event.step, trainer.total_training_steps) and (cause := find_cause(directory)):
                        control.notify(cause, "warning")
                case ValidationReport():
                    if progress.before is None and event.step == 0:
                        progress.before, progress.before_groups = event.metrics, event.groups
                    progress.after, progress.after_groups = event.metrics, event.groups
                    loggers.log(event.step, event.metrics)
                    if trainer.keep_best is not False and event.step > 0 and RANKED in event.metrics:
                        from astuner.runs.store.checkpoints import record_validation

                        record_validation(directory, event.step, RANKED, event.metrics[RANKED])
                    report_groups(event)
                    hooks.validation_finished(event)
                case CheckpointSaved():
                    from astuner.runs.store.checkpoints import prune_checkpoints

                    control.store.sync()
                    directory.write_state(checkpoint=event.step)
                    if (damage := prune_checkpoints(directory, keep=trainer.max_checkpoints_to_keep)) is not None:
                        control.notify(damage, "warning")
                    hooks.checkpoint_saved(event.step, Path(event.path))
                case Notice():
                    control.notify(event.text, event.level)


def _is_diagnosis_due(step: int, last: int | None) -> bool:
    """Whether a run is looked at after a step; after the last one the end of the run is."""
    times, rest = divmod(step, FIRST_LOOK)
    return step != last and rest == 0 and times > 0 and times & (times - 1) == 0
