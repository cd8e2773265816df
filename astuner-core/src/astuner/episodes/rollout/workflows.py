"""The user's workflow, a `Workflow` class or an AgentScope 1.x tuner function: finding and making it, and what it returns."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from attrs import frozen

from astuner.contract.errors import PluginError
from astuner.contract.plain_values import show_value
from astuner.contract.protocols import Tuner, Workflow, WorkflowTraits, has_methods, read_traits
from astuner.contract.schema import WorkflowOutput, WorkflowTask
from astuner.episodes.rollout.workflow_shape import UnfitWorkflow, check_class, check_function, describe_object, read_targets
from astuner.settings.plugins.async_methods import format_place, is_plain_function
from astuner.shared.clients.agentscope_models import close_models

if TYPE_CHECKING:
    from astuner.contract.errors import Problem
    from astuner.contract.protocols import RunInfo
    from astuner.settings.config.model import Config

KEY = "astuner.rollout.user_workflow"


@frozen(kw_only=True)
class LoadedWorkflow:
    """A workflow that can be made once per episode."""

    make: Callable[[], Workflow]
    trainable_targets: tuple[str, ...] | None
    blocks: bool = False
    """Whether it is a plain `def`, which runs in a thread of its own."""
    place: str = ""
    """Where that is written, as ` (agent.py:12)`."""
    adapted: bool = False
    """Whether it is written for another library, and the class that plays it (`WorkflowTraits.adapts`) decides where it runs."""
    find_problems: Callable[[Config, Path], Iterable[Problem]] = lambda config, config_dir: ()
    """As `WorkflowTraits.checks_config` says."""
    in_sandboxes: Any = None
    """The class, if it runs programs in sandboxes: it is then made with them, and not by `make`."""


def load_workflow(target: str, config_dir: Path, run_info: RunInfo | None = None) -> LoadedWorkflow:
    """Import what `rollout.user_workflow` names and check its shape.

    A class with `from_run` is made by it, as other components are; without `run_info` it can be looked at, but not made.
    """
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.drivers import load
    from astuner.settings.plugins.raised_errors import describe_raised

    # Distributions offer no workflows, so what is installed does not matter here.
    candidate = Catalog().find("workflows", target, config_dir=config_dir, key=KEY)
    found = load(candidate)
    try:
        return _read_workflow(found, run_info)
    except UnfitWorkflow as error:
        raise PluginError(f"{KEY}: {target} {error}") from error
    except Exception as error:
        # Looking at a class can run the user's code too: a metaclass, a property, a list of its own.
        raise PluginError(f"{KEY}: {target} cannot be read: {describe_raised(error, config_dir)}") from error


def _read_workflow(found: Any, run_info: RunInfo | None) -> LoadedWorkflow:
    if isinstance(found, type):
        adapted = read_traits(found, WorkflowTraits).adapts
        workflow: Any = cast("Any", found).as_workflow() if adapted else found
        check_class(workflow)
        made = cast("type[Workflow]", workflow)
        play, traits = made.execute, read_traits(workflow, WorkflowTraits)
        return LoadedWorkflow(
            make=partial(workflow.from_run, None, run_info) if has_methods(workflow, "from_run") else made,
            trainable_targets=_settle_targets(workflow, run_info),
            blocks=is_plain_function(play),
            place=format_place(play),
            adapted=adapted,
            in_sandboxes=workflow if traits.runs_in_sandboxes else None,
            **({"find_problems": workflow.find_problems} if traits.checks_config else {}),
        )
    if callable(found) and not isinstance(found, Workflow):
        check_function(found)
        blocks = is_plain_function(found)
        kind = BlockingFunctionWorkflow if blocks else FunctionWorkflow
        return LoadedWorkflow(make=lambda: kind(found), trainable_targets=None, blocks=blocks, place=format_place(found))
    raise UnfitWorkflow(
        f"is {describe_object(found)}; it must be a class with "
        "`async def execute(self, workflow_task, tuner)` or an `async def workflow(task, model, ...)`; a plain `def` will do"
    )


def _settle_targets(workflow: type, run_info: RunInfo | None) -> tuple[str, ...] | None:
    """Return the targets that the section `agent` names, for a workflow that runs a program; otherwise those of the class."""
    given = read_targets(workflow)
    if run_info is None:
        return given
    named = run_info.config.agent.trainable_targets if read_traits(workflow, WorkflowTraits).runs_in_sandboxes else None
    targets, adapters = given if named is None else named, run_info.config.model.adapters
    if adapters and (bare := [tag for tag in targets or () if tag not in adapters]):
        raise UnfitWorkflow(
            f"trains {', '.join(bare)}, and model.adapters has no entry of that name. Add it, or leave out the target"
        )
    return targets


class FunctionWorkflow(Workflow):
    """Runs `async def workflow(task, model, auxiliary_models, logger)` as the `tune()` of AgentScope 1.x does.

    `task` is the row as it was read, with `main_query` and `task_id`; `model` an AgentScope chat model, `auxiliary_models` those
    of `rollout.auxiliary_models` by name, and `logger` the logger `astuner.workflow`. None of the models streams. A function
    gets the arguments that it names. It may return any object with `reward`, `response` and `metrics`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function."""
        self._function = function

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode."""
        async with AuxiliaryModels(tuner) as models:
            return _read_answer(await self._call(workflow_task, tuner, models))

    def _call(self, workflow_task: WorkflowTask, tuner: Tuner, models: AuxiliaryModels) -> Any:
        from astuner.contract.user_values.named_arguments import choose_arguments
        from astuner.shared.tabular.original_row import restore_row

        offered: dict[str, Callable[[], Any]] = {
            "task": lambda: restore_row(workflow_task.task),
            "model": lambda: _make_main_model(tuner),
            "auxiliary_models": models.make,
            "logger": lambda: logging.getLogger("astuner.workflow"),
        }
        return self._function(**{name: offered[name]() for name in choose_arguments(self._function, offered)})


class BlockingFunctionWorkflow(FunctionWorkflow):
    """The same for a plain `def workflow(...)`, which may return an awaitable."""

    def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> Any:
        """Play one episode."""
        models = AuxiliaryModels(tuner)
        found = self._call(workflow_task, tuner, models)
        return self._wait(found, models) if inspect.isawaitable(found) else _read_answer(found)

    async def _wait(self, found: Awaitable[Any], models: AuxiliaryModels) -> WorkflowOutput:
        async with models:
            return _read_answer(await found)


class AuxiliaryModels:
    """The auxiliary models of an episode; closing it closes the connections of those that have their own."""

    def __init__(self, tuner: Tuner) -> None:
        """Make nothing before it is asked for."""
        self._tuner = tuner
        self._models: dict[str, Any] = {}

    def make(self) -> dict[str, Any]:
        """Return the chat models by name."""
        self._models = self._tuner.as_agentscope_auxiliary_models()
        return dict(self._models)

    async def __aenter__(self) -> AuxiliaryModels:
        """Begin."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what belongs to the episode."""
        ours = self._tuner.as_oai_baseurl_apikey().base_url if self._models else ""
        # Those of the gateway share its connections.
        await close_models(model for model in self._models.values() if str(model.client.base_url).rstrip("/") != ours)


def _make_main_model(tuner: Tuner) -> Any:
    """Return the model in training, not streaming: such functions read the answer of a call at once."""
    model = tuner.as_agentscope_model()
    if getattr(model, "stream", False):
        model.stream = False
    return model


def _read_answer(found: Any) -> WorkflowOutput:
    if isinstance(found, WorkflowOutput):
        return found
    if not any(hasattr(found, name) for name in ("reward", "response", "metrics")):
        raise TypeError(
            f"the workflow returned {show_value(found)}; it must return an object with `reward`, `response` and `metrics`, "
            "such as a WorkflowOutput of astuner or of agentscope.tuner"
        )
    return WorkflowOutput(
        reward=getattr(found, "reward", None),
        log_metrics=getattr(found, "metrics", None) or {},
        response=getattr(found, "response", None),
    )
