"""The typed way from core to its extensions: one method per hook, over pluggy's untyped calls."""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pluggy
from attrs import frozen

from astuner.contract.errors import AstunerError, ConfigError, PluginError, Problem
from astuner.contract.hookspecs import PROJECT, SPECS
from astuner.contract.protocols import Candidate
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.core_makers import CoreMakers
from astuner.settings.plugins.extension import DECIDING, Extension, explain_errors, guard_extension
from astuner.shared.known_packages import CORE

if TYPE_CHECKING:
    import click

    from astuner.contract.protocols import (
        Backbone,
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

OPTIONS_KEY = "astuner.plugins.options"

TRACE = "ASTUNER_TRACE_HOOKS"
"""The environment variable that has every hook call printed."""


def _say(text: str) -> None:
    print(text, file=sys.stderr)


@frozen(kw_only=True)
class Provenance:
    """Who made one component of a run."""

    candidate: Candidate
    """The requested component."""
    made_by: str
    """`astuner-core`, or the extension that answered in its place."""
    wrapped_by: tuple[str, ...] = ()
    """The extensions that wrapped the component, outermost first."""

    def row(self) -> Mapping[str, str]:
        """Return it as strings, for `run.json`."""
        candidate = self.candidate
        return {
            "kind": candidate.kind,
            "name": candidate.name,
            "target": candidate.target,
            "dist": candidate.dist or "",
            "version": candidate.version or "",
            "made_by": self.made_by,
            "wrapped_by": "; ".join(self.wrapped_by),
        }


class Hooks:
    """The extensions of one process. Each rollout process builds its own from the catalog."""

    def __init__(
        self,
        catalog: Catalog,
        *,
        on_listener_error: Callable[[str], None] = _say,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Register the installed extensions, one at a time: a broken one is left out and listed in `problems`.

        `on_listener_error` hears of these, and once for each kind of error which listener failed at which event.
        `options` are those of extensions, by entry-point name: the section `astuner.plugins.options`.
        """
        self._on_listener_error = on_listener_error
        self._manager = pluggy.PluginManager(PROJECT)
        self._lock = threading.RLock()
        self._serial = itertools.count()
        self._notes: list[tuple[str, str]] = []
        self._provenance: list[Provenance] = []
        self._problems: list[Problem] = []
        self._reported: set[tuple[str, str, type]] = set()
        for specs in SPECS:
            self._manager.add_hookspecs(specs)
        if os.environ.get(TRACE, "0") not in ("", "0"):
            from astuner.settings.plugins.tracing import trace_calls

            trace_calls(self._manager)
        options = options or {}
        extensions = catalog.candidates("hook")
        for candidate in extensions:
            self._load_extension(candidate, options.get(candidate.name, {}))
        for name in sorted(set(options) - {candidate.name for candidate in extensions}):
            message = "no such extension is installed and enabled."
            similar = find_closest(name, (candidate.name for candidate in extensions))
            self._leave_out(Problem(key=f"{OPTIONS_KEY}.{name}", message=message, suggestion=similar))
        # pluggy asks the latest of the `trylast` last: core comes after every extension.
        self._manager.register(CoreMakers(), name=CORE)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The errors of extensions that were left out, each with its blame."""
        return tuple(self._problems)

    @property
    def provenance(self) -> tuple[Provenance, ...]:
        """Who made each component, in order."""
        return tuple(self._provenance)

    def check_pending(self) -> None:
        """Raise `PluginError` when any extension was left out: strict when a run starts, tolerant when plugins are listed."""
        if self._problems:
            raise PluginError("\n".join(map(str, self._problems)))

    def register(self, extension: object, blame: str, *, listens_only: bool = False) -> tuple[str, ...]:
        """Add an object with `@hookimpl` methods and return the hooks that it implements, which may be none.

        Raises `PluginError` with the blame for a method that is misspelt or cannot work, and then adds nothing.
        """
        try:
            guard = guard_extension(self._manager, extension, blame, self._note, listens_only=listens_only)
        except ValueError as error:
            raise PluginError(f"{blame}: {error}") from error
        try:
            self._manager.register(guard, name=f"{blame} #{next(self._serial)}")
            self._manager.check_pending()
        except pluggy.PluginValidationError as error:
            if self._manager.is_registered(guard):
                self._manager.unregister(guard)
            raise PluginError(f"{blame}: {self._explain(guard, error)}") from error
        return tuple(guard.hooks)

    def make_reader(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Reader:
        """Make the reader of the run."""
        return cast("Reader", self._make_listener("reader", candidate, options, run_info))

    def make_judge(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Judge:
        """Make a judge, whole even when the class has only `compute_reward`."""
        return cast("Judge", self._make("judge", candidate, options=options, run_info=run_info))

    def make_reward(self, judges: Sequence[WeightedJudge], run_info: RunInfo) -> Judge | None:
        """Combine all judges into one; None if there are none."""
        if not judges:
            return None
        made = self._manager.hook.astuner_make_reward(judges=judges, run_info=run_info)
        if made is None:
            raise PluginError("astuner_make_reward: a wrapper returned None in place of the judge that stands for all")
        return cast("Judge", made)

    def make_tracker(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeTracker:
        """Return what makes the tracker of an episode."""
        return cast("MakeTracker", self._make("tracker", candidate, options=options, run_info=run_info))

    def make_environment(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEnvironment:
        """Return what makes the environment of an episode."""
        return cast("MakeEnvironment", self._make("environment", candidate, options=options, run_info=run_info))

    def make_sandbox(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Sandboxes:
        """Make what opens the sandboxes of a rollout process."""
        return cast("Sandboxes", self._make("sandbox", candidate, options=options, run_info=run_info))

    def make_detector(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Detector:
        """Make a detector of abnormal behaviour."""
        return cast("Detector", self._make("detector", candidate, options=options, run_info=run_info))

    def make_engine(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEngine:
        """Return what makes the engine of a rollout process."""
        return cast("MakeEngine", self._make("engine", candidate, options=options, run_info=run_info))

    def make_estimator(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Estimator:
        """Make the estimator of the run."""
        return cast("Estimator", self._make("estimator", candidate, options=options, run_info=run_info))

    def make_loss(self, candidate: Candidate, options: Any, run_info: RunInfo) -> PolicyLoss:
        """Make the policy gradient's loss of the run."""
        return cast("PolicyLoss", self._make("loss", candidate, options=options, run_info=run_info))

    def make_sampler(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Sampler:
        """Make what chooses the tasks of the run."""
        return cast("Sampler", self._make("sampler", candidate, options=options, run_info=run_info))

    def make_logger(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Logger:
        """Make one logger."""
        return cast("Logger", self._make_listener("logger", candidate, options, run_info))

    def make_backbone(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Backbone:
        """Make the backbone of the run."""
        return cast("Backbone", self._make_listener("backbone", candidate, options, run_info))

    def make_service(self, candidate: Candidate, run_info: RunInfo) -> Definition:
        """Define a service."""
        return cast("Definition", self._make("service", candidate, run_info=run_info))

    def make_command(self, candidate: Candidate) -> click.Command:
        """Return a command of the command line."""
        return cast("click.Command", self._make("command", candidate))

    def tasks_read(self, split: str, count: int) -> None:
        """Report that a split was read to its end for the first time."""
        self._tell("astuner_tasks_read", split=split, count=count)

    def group_judged(self, group: Group) -> None:
        """Report that all siblings of a task have their verdicts."""
        self._tell("astuner_group_judged", group=group)

    def run_started(self, run_info: RunInfo, plugins: Sequence[Mapping[str, str]]) -> None:
        """Report that the run directory is locked and nothing heavy has started."""
        self._tell("astuner_run_started", run_info=run_info, plugins=plugins)

    def episode_finished(self, episode: Episode) -> None:
        """Report that an episode was judged and stored."""
        self._tell("astuner_episode_finished", episode=episode)

    def step_finished(self, report: StepReport) -> None:
        """Report that a training step is done and logged."""
        self._tell("astuner_step_finished", report=report)

    def validation_finished(self, report: ValidationReport) -> None:
        """Report that a validation pass is done and logged."""
        self._tell("astuner_validation_finished", report=report)

    def checkpoint_saved(self, step: int, path: Path) -> None:
        """Report that a checkpoint is complete on disk."""
        self._tell("astuner_checkpoint_saved", step=step, path=path)

    def notice(self, notice: Notice) -> None:
        """Report a notice to the user."""
        self._tell("astuner_notice", notice=notice)

    def run_finished(self, run_info: RunInfo, exit_code: int) -> None:
        """Report that everything is closed."""
        self._tell("astuner_run_finished", run_info=run_info, exit_code=exit_code)

    def _load_extension(self, candidate: Candidate, values: Mapping[str, Any]) -> None:
        from astuner.settings.plugins.drivers import construct, load
        from astuner.settings.plugins.options import build_options

        try:
            target = load(candidate)
            options = build_options(target, values, key=f"{OPTIONS_KEY}.{candidate.name}")
            extension = construct(candidate, target, options, None) if isinstance(target, type) else target
            if not self.register(extension, candidate.blame):
                raise PluginError(f"{candidate.blame} has no method marked @astuner.hookimpl")
        except ConfigError as error:
            for problem in error.problems:
                self._leave_out(problem)
        except AstunerError as error:
            self._leave_out(Problem(message=str(error)))

    def _leave_out(self, problem: Problem) -> None:
        self._problems.append(problem)
        self._on_listener_error(f"left out: {problem}")

    def _explain(self, extension: Extension, error: pluggy.PluginValidationError) -> str:
        specs = [name for name, caller in vars(self._manager.hook).items() if caller.has_spec()]
        unknown = next((hook for hook in extension.hooks if hook not in specs), None)
        if unknown is None:
            return " ".join(str(error).splitlines()[1:])
        return str(Problem(message=f"there is no hook '{unknown}'.", suggestion=find_closest(unknown, specs)))

    def _note(self, role: str, blame: str) -> None:
        self._notes.append((role, blame))

    def _make_listener(self, kind: str, candidate: Candidate, options: Any, run_info: RunInfo) -> Any:
        """Make a component that lives as long as the run, and lets it listen to events."""
        made = self._make(kind, candidate, options=options, run_info=run_info)
        self.register(made, candidate.blame, listens_only=True)
        return made

    def _make(self, kind: str, candidate: Candidate, **arguments: Any) -> Any:
        with self._lock:
            self._notes.clear()
            ask = getattr(self._manager.hook, DECIDING + kind)
            with explain_errors(f"{candidate.blame} could not be made"):
                made = ask(candidate=candidate, **arguments)
            answered = [blame for role, blame in self._notes if role == "answered"]
            wrapped = tuple(blame for role, blame in self._notes if role == "wrapped")
            if made is None:
                raise PluginError(f"{candidate.blame} could not be made: a wrapper returned None, one of {'; '.join(wrapped)}")
            self._provenance.append(
                Provenance(candidate=candidate, made_by=answered[0] if answered else CORE, wrapped_by=wrapped)
            )
            return made

    def _tell(self, hook: str, **arguments: Any) -> None:
        implementations = getattr(self._manager.hook, hook).get_hookimpls()
        listeners = list(dict.fromkeys(implementation.plugin for implementation in implementations))
        # One call for each, in pluggy's order: a listener that fails is named, and the next one is still called.
        for listener in reversed(listeners):
            others = [other for other in listeners if other is not listener]
            try:
                self._manager.subset_hook_caller(hook, others)(**arguments)
            except AstunerError as error:
                self._report(hook, cast("Extension", listener), error)

    def _report(self, hook: str, listener: Extension, error: AstunerError) -> None:
        reason = (listener.blame, hook, type(error.__cause__))
        if reason not in self._reported:
            self._reported.add(reason)
            self._on_listener_error(str(error))
