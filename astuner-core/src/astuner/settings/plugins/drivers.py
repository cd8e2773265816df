"""Loading and making the component that the catalog chose. The only module that imports stevedore."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any, TypeVar, cast

from stevedore import DriverManager

from astuner.contract.errors import PluginError
from astuner.contract.protocols import (
    BackboneTraits,
    Candidate,
    EngineTraits,
    EnvironmentTraits,
    EstimatorTraits,
    JudgeTraits,
    LoggerTraits,
    LossTraits,
    MakeEnvironment,
    ReaderTraits,
    RunInfo,
    SandboxTraits,
    TrackerTraits,
    WorkflowTraits,
    has_methods,
    read_traits,
)
from astuner.contract.protocols.traits import find_faults
from astuner.settings.plugins.compat import require_compatible
from astuner.settings.plugins.extension import explain_errors
from astuner.settings.plugins.kinds import GROUPS
from astuner.settings.plugins.paths import explain_missing_neighbour, make_entry_point
from astuner.settings.plugins.raised_errors import describe_raised
from astuner.shared.install_hints import explain_missing_module

if TYPE_CHECKING:
    from astuner.contract.schema import WorkflowTask

    _DriverManager = DriverManager[Any]
else:
    _DriverManager = DriverManager  # older releases are not generic at run time

T = TypeVar("T")
TRAITS: Mapping[str, type[Any]] = {
    "backbone": BackboneTraits,
    "engine": EngineTraits,
    "environment": EnvironmentTraits,
    "estimator": EstimatorTraits,
    "judge": JudgeTraits,
    "logger": LoggerTraits,
    "loss": LossTraits,
    "reader": ReaderTraits,
    "sandbox": SandboxTraits,
    "tracker": TrackerTraits,
    "workflow": WorkflowTraits,
}
"""By kind; the others offer nothing beyond their Protocol."""


class Driver(_DriverManager):
    """Loads one candidate. Discovery stays with the catalog: stevedore's forgets distributions and caches on disk."""

    def __init__(self, candidate: Candidate) -> None:
        """Import the candidate's module and look its attribute up; raises whatever that raises."""
        self._entry_point = _entry_point(candidate)
        super().__init__(self._entry_point.group, candidate.name)

    def list_entry_points(self) -> list[EntryPoint]:
        """Return the chosen entry point, and no other."""
        return [self._entry_point]

    @property
    def target(self) -> Any:
        """The object of the entry point; stevedore's `.driver` may be an instance instead."""
        return self.extensions[0].plugin


def load(candidate: Candidate) -> Any:
    """Import the class (or function, or object) of a candidate; raises `PluginError` with the blame when that fails."""
    require_compatible(candidate)
    try:
        target = Driver(candidate).target
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        lacks = f". It lacks {', '.join(candidate.missing)}: {candidate.remedy}" if candidate.missing else ""
        hint = lacks or explain_missing_module(error) or explain_missing_neighbour(error, candidate)
        raise PluginError(f"{candidate.blame}: {describe_raised(error, candidate.config_dir)}{hint}") from error
    with explain_errors(f"{candidate.blame} cannot be looked at"):
        check_traits(candidate, target)
    return target


def load_with_traits(candidate: Candidate) -> tuple[Any, Any]:
    """Return the class of a component, and the traits of its kind."""
    target = load(candidate)
    return target, read_traits(target, TRAITS[candidate.kind])


def construct(candidate: Candidate, target: Callable[..., T], options: Any, run_info: RunInfo | None) -> T:
    """Make a component of its loaded class: `from_run(options, run_info)` if it has that, else its constructor.

    Raises `PluginError` with the blame; errors that explain themselves (`AstunerError`) pass as they are.
    """
    with explain_errors(f"{candidate.blame} could not be made"):
        if has_methods(target, "from_run"):
            return cast("T", cast("Any", target).from_run(options, run_info))
        return target() if options is None else target(options)


def make(candidate: Candidate, options: Any, run_info: RunInfo | None) -> Any:
    """Load and make a component, as core does if no extension makes it instead."""
    return construct(candidate, load(candidate), options, run_info)


def _entry_point(candidate: Candidate) -> EntryPoint:
    if candidate.source == "path":
        return make_entry_point(candidate)
    return EntryPoint(candidate.name, candidate.target, str(GROUPS[candidate.kind]))


def bind_environment(candidate: Candidate, target: Any, options: Any, run_info: RunInfo) -> MakeEnvironment:
    """Return what makes an environment of its class by the rule of all components, with the task before the other arguments."""

    def make(workflow_task: WorkflowTask) -> Any:
        with_task: Any = partial(target, workflow_task)
        if has_methods(target, "from_run"):
            with_task.from_run = partial(target.from_run, workflow_task)
        return construct(candidate, with_task, options, run_info)

    return make


def check_traits(candidate: Candidate, target: object) -> None:
    """Raise `PluginError`, with the blame, if the class of a component contradicts its traits."""
    record = TRAITS.get(candidate.kind)
    if record is None or not isinstance(target, type):
        return
    if faults := list(find_faults(target, record, tuple(TRAITS.values()))):
        raise PluginError(f"{candidate.blame}: {'; '.join(faults)}")
