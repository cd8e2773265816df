"""The user's workflow, a `Workflow` class or an AgentScope 1.x tuner function: finding and making it, and what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from astuner.errors import PluginError
from astuner.plugins.async_methods import format_place, is_plain_function
from astuner.protocols import Tuner, Workflow
from astuner.protocols.optional import find_offer
from astuner.protocols.program_workflow import RunsInSandboxes
from astuner.rollout.workflow_shape import UnfitWorkflow, check_class, check_function, describe_object, read_targets
from astuner.schema import WorkflowOutput, WorkflowTask

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
    in_sandboxes: type[RunsInSandboxes] | None = None
    """The class, if it runs programs in sandboxes: it is then made with them, and not by `make`."""


def load_workflow(target: str, config_dir: Path) -> LoadedWorkflow:
    """Import what `rollout.user_workflow` names and check its shape."""
    from astuner.plugins.catalog import Catalog
    from astuner.plugins.drivers import load
    from astuner.plugins.raised_errors import describe_raised

    # Distributions offer no workflows, so what is installed does not matter here.
    candidate = Catalog().find("workflows", target, config_dir=config_dir, key=KEY)
    found = load(candidate)
    try:
        return _read_workflow(found)
    except UnfitWorkflow as error:
        raise PluginError(f"{KEY}: {target} {error}") from error
    except Exception as error:
        # Looking at a class can run the user's code too: a metaclass, a property, a list of its own.
        raise PluginError(f"{KEY}: {target} cannot be read: {describe_raised(error, config_dir)}") from error


def _read_workflow(found: Any) -> LoadedWorkflow:
    if isinstance(found, type):
        check_class(found)
        made = cast("type[Workflow]", found)
        play = made.execute
        return LoadedWorkflow(
            make=made,
            trainable_targets=read_targets(found),
            blocks=is_plain_function(play),
            place=format_place(play),
            in_sandboxes=cast("type[RunsInSandboxes] | None", find_offer(found, RunsInSandboxes)),
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


class FunctionWorkflow(Workflow):
    """Runs `async def workflow(task, model, auxiliary_models=None, logger=None)` as AgentScope 1.x's tuner does.

    `task` is the task as a dict, `model` an AgentScope chat model; it may return any object with `reward`,
    `response` and `metrics`.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        """Keep the function."""
        self._function = function

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode."""
        return _read_answer(await self._call(workflow_task, tuner))

    def _call(self, workflow_task: WorkflowTask, tuner: Tuner) -> Any:
        task = workflow_task.task
        as_dict = {**task.metadata, "main_query": task.main_query, "task_id": task.task_id}
        return self._function(task=as_dict, model=tuner.as_agentscope_model())


class BlockingFunctionWorkflow(FunctionWorkflow):
    """The same for a plain `def workflow(...)`, which may return an awaitable."""

    def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> Any:
        """Play one episode."""
        found = self._call(workflow_task, tuner)
        return self._wait(found) if inspect.isawaitable(found) else _read_answer(found)

    async def _wait(self, found: Awaitable[Any]) -> WorkflowOutput:
        return _read_answer(await found)


def _read_answer(found: Any) -> WorkflowOutput:
    if isinstance(found, WorkflowOutput):
        return found
    response = getattr(found, "response", None)
    return WorkflowOutput(
        reward=getattr(found, "reward", None),
        metadata={"final_answer": response if isinstance(response, str) else _read_text(response)},
        log_metrics=getattr(found, "metrics", None) or {},
    )


def _read_text(response: Any) -> str:
    """Return the text of an AgentScope message, or its string form."""
    get_text = getattr(response, "get_text_content", None)
    return str(get_text() if callable(get_text) else response)
