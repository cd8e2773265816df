"""Core's own answer to every deciding hook: load the chosen class, and construct it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import PluginError
from astuner.contract.hookspecs import hookimpl

if TYPE_CHECKING:
    import click

    from astuner.contract.protocols import Candidate, Estimator, Judge, MakeEnvironment, RunInfo
    from astuner.episodes.judging.composition import WeightedJudge
    from astuner.shared.services import Definition


def _make_with(method: str | None = None) -> Callable[..., Any]:
    """Return what loads and constructs a component; `PluginError` is raised if it lacks the method, given with its arguments."""

    @hookimpl(trylast=True)
    def make_component(self: CoreMakers, candidate: Candidate, options: Any, run_info: RunInfo) -> Any:
        from astuner.settings.plugins.drivers import make

        made = make(candidate, options, run_info)
        if method is not None:
            _check_method(candidate, made, method)
        return made

    return make_component


def _check_method(candidate: Candidate, made: object, method: str) -> None:
    if not callable(getattr(made, method.partition("(")[0], None)):
        raise PluginError(f"{candidate.blame} has no method `{method}`")


class CoreMakers:
    """Registered to be called last."""

    astuner_make_reader = astuner_make_logger = astuner_make_backbone = _make_with()
    astuner_make_sandbox = _make_with("open(spec)")
    astuner_make_detector = _make_with("look(output)")
    astuner_make_loss = _make_with("compute(tokens)")
    astuner_make_sampler = _make_with("choose(draw, state)")

    @hookimpl(trylast=True)
    def astuner_make_tracker(self, candidate: Candidate, options: Any, run_info: RunInfo) -> partial[Any]:
        """Load now, construct with each call."""
        from astuner.settings.plugins.drivers import construct, load

        return partial(construct, candidate, load(candidate), options, run_info)

    astuner_make_engine = astuner_make_tracker

    @hookimpl(trylast=True)
    def astuner_make_judge(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Judge:
        """Load and construct, and adapt what is not a whole judge; a plain function is taken as it is."""
        from astuner.episodes.judging.simple_judges import make_judge
        from astuner.settings.plugins.drivers import construct, load

        target = load(candidate)
        made = construct(candidate, target, options, run_info) if isinstance(target, type) else target
        auxiliary_models = run_info.config.rollout.auxiliary_models if run_info is not None else {}
        return make_judge(made, blame=candidate.blame, auxiliary_models=auxiliary_models)

    @hookimpl(trylast=True)
    def astuner_make_reward(self, judges: Sequence[WeightedJudge], run_info: RunInfo) -> Judge | None:
        """Combine the judges as configured."""
        from astuner.episodes.judging.composition import combine_judges

        return combine_judges(judges, run_info.config.task_judge.reward)

    @hookimpl(trylast=True)
    def astuner_make_environment(self, candidate: Candidate, options: Any, run_info: RunInfo) -> MakeEnvironment:
        """Load now, construct with each call, with the task before the other arguments."""
        from astuner.settings.plugins.drivers import bind_environment, load

        return bind_environment(candidate, load(candidate), options, run_info)

    @hookimpl(trylast=True)
    def astuner_make_estimator(self, candidate: Candidate, options: Any, run_info: RunInfo) -> Estimator:
        """Load and construct."""
        from astuner.contract.protocols import EstimatorTraits, read_traits
        from astuner.settings.plugins.drivers import make

        estimator: Estimator = make(candidate, options, run_info)
        needed = "signal" if read_traits(estimator, EstimatorTraits).gives_streams else "advantages"
        _check_method(candidate, estimator, f"{needed}(groups)")
        return estimator

    @hookimpl(trylast=True)
    def astuner_make_service(self, candidate: Candidate, run_info: RunInfo) -> Definition:
        """Load the function, and call it."""
        from astuner.settings.plugins.drivers import load
        from astuner.shared.services import Definition

        made = load(candidate)(run_info)
        if not isinstance(made, Definition):
            raise PluginError(f"{candidate.blame} returned {made!r}; astuner.services.Definition is expected")
        return made

    @hookimpl(trylast=True)
    def astuner_make_command(self, candidate: Candidate) -> click.Command:
        """Load it."""
        import click

        from astuner.settings.plugins.drivers import load

        command = load(candidate)
        if not isinstance(command, click.Command):
            raise PluginError(f"{candidate.blame} is {command!r}; a click command is expected")
        return command
