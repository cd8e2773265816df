"""The user's workflow, a `Workflow` class or an AgentScope 1.x tuner function: finding and making it, and what it returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from astuner.errors import PluginError
from astuner.protocols import Tuner, Workflow
from astuner.rollout.workflow_shape import UnfitWorkflow, check_class, check_function, describe_object, read_targets
from astuner.schema import WorkflowOutput, WorkflowTask

KEY = "astuner.rollout.user_workflow"


@frozen(kw_only=True)
class LoadedWorkflow:
    """A workflow that can be made once per episode."""

    make: Callable[[], Workflow]
    trainable_targets: tuple[str, ...] | None


def load_workflow(target: str, config_dir: Path) -> LoadedWorkflow:
    """Import what `rollout.user_workflow` names and check its shape."""
    from astuner.plugins.catalog import Catalog
    from astuner.plugins.drivers import load
    from astuner.plugins.raised_errors import describe_raised

    candidate = Catalog.discover().find("workflows", target, config_dir=config_dir, key=KEY)
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
        return LoadedWorkflow(make=cast("type[Workflow]", found), trainable_targets=read_targets(found))
    if callable(found) and not isinstance(found, Workflow):
        check_function(found)
        return LoadedWorkflow(make=lambda: FunctionWorkflow(found), trainable_targets=None)
    raise UnfitWorkflow(
        f"is {describe_object(found)}; it must be a class with "
        "`async def execute(self, workflow_task, tuner)` or an `async def workflow(task, model, ...)`"
    )


class FunctionWorkflow(Workflow):
    """Runs `async def workflow(task, model, auxiliary_models=None, logger=None)` as AgentScope 1.x's tuner does.

    `task` is the task as a dict, `model` an AgentScope chat model; it may return any object with `reward`,
    `response` and `metrics`.
    """

    def __init__(self, function: Callable[..., Awaitable[Any]]) -> None:
        """Keep the function."""
        self._function = function

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode."""
        task = workflow_task.task
        as_dict = {**task.metadata, "main_query": task.main_query, "task_id": task.task_id}
        found = await self._function(task=as_dict, model=tuner.as_agentscope_model())
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
