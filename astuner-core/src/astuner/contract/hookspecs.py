"""The hooks of astuner, one class of specs per kind of component.

An extension is any object with methods marked `@astuner.hookimpl`; it is found through the entry-point group `astuner.hooks`.
Two sorts of hooks: `astuner_make_*` are *deciding* (`firstresult`: core's own implementation comes last, an extension may answer
in its place or wrap it, and an exception stops the run with the blame attached, or fails the episode whose environment it is),
all others are *events* (each listener is called on its own, one that raises is named and the rest still hear). Events arrive
in the driver; those of rollout processes travel there as data. Each spec says when it is called, and in which process and thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    from pathlib import Path

    import click

    from astuner.contract.protocols import (
        Backbone,
        Candidate,
        Detector,
        Estimator,
        Judge,
        Logger,
        MakeEngine,
        MakeEnvironment,
        MakeTracker,
        PolicyLoss,
        Reader,
        RunInfo,
        Sampler,
        Sandboxes,
    )
    from astuner.contract.schema import Episode, Group, Notice, StepReport, ValidationReport
    from astuner.episodes.judging.composition import WeightedJudge
    from astuner.shared.services import Definition

PROJECT = "astuner"

F = TypeVar("F", bound=Callable[..., Any])

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a method as the implementation of a hook: `@hookimpl` or `@hookimpl(wrapper=True)`."""

_hookspec = pluggy.HookspecMarker(PROJECT)


def _mark_deciding(spec: F) -> F:
    return _hookspec(firstresult=True)(spec)


def _mark_event(spec: F) -> F:
    return _hookspec(spec)


class ComponentSpecs:
    """What makes the components of a run, and what happens to tasks and groups."""

    @_mark_deciding
    def astuner_make_reader(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Reader | None:
        """Make the reader of the run.

        When: once, before anything else of the run is made; for `astuner run --dry-run` too.
        Where: the driver, main thread.
        """

    @_mark_event
    def astuner_tasks_read(self, split: str, count: int) -> None:
        """A split was read to its end for the first time.

        When: once for `train`, then once for `validation`, with a count of 0 for a split that is not configured; before the
        loggers are made.
        Where: the driver, main thread.
        """

    @_mark_deciding
    def astuner_make_judge(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Judge | None:
        """Make a judge; it is whole, with `observe` and `judge`, when core has made it.

        When: once for each judge of the run, before the first episode.
        Where: each rollout process; for backbones that play in the driver, as `debug` does, that is the driver.
        """

    @_mark_deciding
    def astuner_make_reward(self, judges: Sequence[WeightedJudge], run_info: RunInfo) -> Judge | None:
        """Make one judge of all judges of the run: its verdicts are the rewards.

        Core's own combines them as the section `task_judge.reward` says. What is made closes the judges that it was given.

        When: once, after the judges are made; not if there are none and workflows give the rewards.
        Where: each rollout process; for backbones that play in the driver, as `debug` does, that is the driver.
        """

    @_mark_event
    def astuner_group_judged(self, group: Group) -> None:
        """All siblings of a task have their verdicts; failed siblings and those that were not judged are among them.

        When: with the report of the group's step or validation, after the loggers have written it.
        Where: the driver, main thread, wherever the group was judged.
        """

    @_mark_deciding
    def astuner_make_tracker(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeTracker | None:
        """Return what makes a tracker: it is called without arguments, once per episode.

        When: once, before the first episode.
        Where: each rollout process; for backbones that play in the driver, as `debug` does, that is the driver.
        """

    @_mark_deciding
    def astuner_make_environment(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEnvironment | None:
        """Return what makes an environment: it is called with the `WorkflowTask`, once per episode.

        With `rollout.isolation: thread` that call happens in the thread of the environment, and may block.

        When: once for each environment of the run, before the first episode that is played in it.
        Where: each rollout process, in the thread of its event loop; for backbones that play in the driver it is there.
        """

    @_mark_deciding
    def astuner_make_sandbox(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Sandboxes | None:
        """Make what opens sandboxes, one for each episode.

        When: once, before the first episode, for a workflow whose traits say that it runs programs in sandboxes.
        Where: each rollout process; for backbones that play in the driver, as `debug` does, that is the driver.
        """

    @_mark_deciding
    def astuner_make_detector(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Detector | None:
        """Make a detector.

        When: once for each detector that is switched on, before the first episode.
        Where: each rollout process; for backbones that play in the driver, as `debug` does, that is the driver.
        """

    @_mark_deciding
    def astuner_make_engine(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEngine | None:
        """Return what makes an engine: it is called without arguments, once per rollout process.

        When: once, before the first episode; not for an engine that the backbone brings itself.
        Where: each rollout process; for backbones that play in the driver, as `debug` does, that is the driver.
        """

    @_mark_deciding
    def astuner_make_estimator(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Estimator | None:
        """Make the estimator of the run.

        When: once, when the backbone begins to train; most make it for a validation pass too.
        Where: the driver, main thread; some backbones make one in each rollout process too.
        """

    @_mark_deciding
    def astuner_make_loss(self, candidate: Candidate, options: Any, run_info: RunInfo) -> PolicyLoss | None:
        """Make the policy gradient's loss of the run.

        When: once, when the backbone begins to train; most make it for a validation pass too.
        Where: the driver, main thread; some backbones make one in each process that trains too.
        """

    @_mark_deciding
    def astuner_make_sampler(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Sampler | None:
        """Make what chooses the tasks of the training steps.

        When: once, when the backbone begins to train; not for a validation pass.
        Where: the driver, main thread.
        """

    @_mark_deciding
    def astuner_make_logger(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Logger | None:
        """Make one logger.

        When: once for each logger of the run, after the tasks are read and before `astuner_run_started`.
        Where: the driver, main thread.
        """

    @_mark_deciding
    def astuner_make_backbone(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Backbone | None:
        """Make the backbone.

        When: once, right after `astuner_run_started`; what it implements of the events begins to listen then.
        Where: the driver, main thread.
        """

    @_mark_deciding
    def astuner_make_service(self, candidate: Candidate, run_info: RunInfo) -> Definition | None:
        """Define a service; core starts what is defined, and ends it after the run.

        When: once for each `--with NAME` that names a package's service, before the reader is made.
        Where: the driver, main thread.
        """

    @_mark_deciding
    def astuner_make_command(self, candidate: Candidate) -> click.Command | None:
        """Return the command.

        There is no configuration then: an extension has its default options, and one that needs others is left out.

        When: whenever the command, or its help, is asked for; not for `astuner --help`, which imports no plugin.
        Where: the process of the command line, main thread.
        """


class RunSpecs:
    """The life of a run, of a resumed one and of `astuner eval`."""

    @_mark_event
    def astuner_run_started(self, run_info: RunInfo, plugins: Sequence[Mapping[str, str]]) -> None:
        """The configuration is valid, the run directory is locked and written, and nothing heavy has started.

        When: once, after the loggers are made and before the backbone is. A run that fails before this has no further event.
        Where: the driver, main thread.
        """

    @_mark_event
    def astuner_episode_finished(self, episode: Episode) -> None:
        """An episode is in the run store, with its verdict; one that failed has none.

        When: with the report of its step or validation, after `astuner_group_judged` of its group, siblings in order.
        Where: the driver, main thread, wherever it was played.
        """

    @_mark_event
    def astuner_step_finished(self, report: StepReport) -> None:
        """A training step is done and logged.

        When: after the events of its groups and episodes. A resumed run sends those of the steps that it repeats again.
        Where: the driver, main thread; the next step waits for the listeners.
        """

    @_mark_event
    def astuner_validation_finished(self, report: ValidationReport) -> None:
        """A validation pass is done and logged.

        When: after the events of its groups and episodes.
        Where: the driver, main thread; training waits for the listeners.
        """

    @_mark_event
    def astuner_checkpoint_saved(self, step: int, path: Path) -> None:
        """A checkpoint is complete on disk.

        When: after the run store was synced and older checkpoints were removed.
        Where: the driver, main thread.
        """

    @_mark_event
    def astuner_notice(self, notice: Notice) -> None:
        """A notice was shown to the user.

        When: after the loggers have shown it; notices from before the loggers are made arrive once they are.
        Where: the driver, in the thread that sent it: the only event that does not always come from the main thread.
        """

    @_mark_event
    def astuner_run_finished(self, run_info: RunInfo, exit_code: int) -> None:
        """The run is over: 0 is done, 130 interrupted with the state saved, anything else failed.

        When: once for each `astuner_run_started`, also when the run failed; the backbone is closed, the loggers are not yet.
        Where: the driver, main thread.
        """


SPECS = (ComponentSpecs, RunSpecs)
