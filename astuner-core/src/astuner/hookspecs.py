"""The hooks of astuner, one class of specs per kind of component.

An extension is any object with methods marked `@astuner.hookimpl`; it is found through the entry-point group `astuner.hooks`.
Two sorts of hooks: `astuner_make_*` are *deciding* (`firstresult`: core's own implementation comes last, an extension may answer
in its place or wrap it, and an exception stops the run with the blame attached), all others are *events* (each listener is called
by itself, one that raises is named and the rest still hear). Events are dispatched in the driver by one thread; those of rollout
processes travel there as data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import pluggy

if TYPE_CHECKING:
    from pathlib import Path

    from astuner.plugins.catalog import Candidate
    from astuner.protocols import Backbone, Judge, Logger, MakeEngine, MakeTracker, Reader, RunInfo
    from astuner.schema import Episode, Group, Notice, StepReport, ValidationReport

PROJECT = "astuner"

F = TypeVar("F", bound=Callable[..., Any])

hookimpl = pluggy.HookimplMarker(PROJECT)
"""Marks a method as the implementation of a hook: `@hookimpl` or `@hookimpl(wrapper=True)`."""

_hookspec = pluggy.HookspecMarker(PROJECT)


def _deciding(spec: F) -> F:
    return _hookspec(firstresult=True)(spec)


def _event(spec: F) -> F:
    return _hookspec(spec)


class ReaderSpecs:
    """Where tasks come from."""

    @_deciding
    def astuner_make_reader(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Reader | None:
        """Make the reader of the run. Driver, once, before anything heavy starts."""

    @_event
    def astuner_tasks_read(self, split: str, count: int) -> None:
        """A split was read to its end for the first time. Driver."""


class JudgeSpecs:
    """Where rewards come from."""

    @_deciding
    def astuner_make_judge(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Judge | None:
        """Make a judge. Each rollout process, once."""

    @_event
    def astuner_group_judged(self, group: Group) -> None:
        """All siblings of a task have their findings. Driver, as data."""


class TrackerSpecs:
    """How samples are read off recorded calls."""

    @_deciding
    def astuner_make_tracker(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeTracker | None:
        """Return a factory; it is called once per episode. Each rollout process."""


class EngineSpecs:
    """What generates tokens."""

    @_deciding
    def astuner_make_engine(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEngine | None:
        """Return a factory; it is called once per rollout process."""


class LoggerSpecs:
    """Where reports are written."""

    @_deciding
    def astuner_make_logger(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Logger | None:
        """Make one logger. Driver, once per run."""


class BackboneSpecs:
    """What trains."""

    @_deciding
    def astuner_make_backbone(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Backbone | None:
        """Make the backbone. Driver, once per run."""


class RunSpecs:
    """The life of a run. All in the driver."""

    @_event
    def astuner_run_started(self, run_info: RunInfo, plugins: Sequence[Mapping[str, str]]) -> None:
        """The configuration is valid and the run directory is locked; nothing heavy has started."""

    @_event
    def astuner_episode_finished(self, episode: Episode) -> None:
        """An episode was judged and stored."""

    @_event
    def astuner_step_finished(self, report: StepReport) -> None:
        """A training step is done and logged."""

    @_event
    def astuner_validation_finished(self, report: ValidationReport) -> None:
        """A validation pass is done and logged."""

    @_event
    def astuner_checkpoint_saved(self, step: int, path: Path) -> None:
        """A checkpoint is complete on disk."""

    @_event
    def astuner_notice(self, notice: Notice) -> None:
        """Something was said to the user."""

    @_event
    def astuner_run_finished(self, run_info: RunInfo, exit_code: int) -> None:
        """The run is over; everything is closed."""


SPECS = (ReaderSpecs, JudgeSpecs, TrackerSpecs, EngineSpecs, LoggerSpecs, BackboneSpecs, RunSpecs)
