"""The user's workflow, a `Workflow` class or an AgentScope 1.x tuner function: finding and making it, and what it returns."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

from attrs import frozen

from astuner.errors import PluginError
from astuner.protocols import Tuner, Workflow
from astuner.protocols.optional import NamesTargets, PlaysEpisodes, find_offer
from astuner.schema import WorkflowOutput, WorkflowTask

FUNCTION_ARGUMENTS = {"task", "model", "auxiliary_models", "logger"}


@frozen(kw_only=True)
class LoadedWorkflow:
    """A workflow that can be made once per episode."""

    make: Callable[[], Workflow]
    trainable_targets: tuple[str, ...] | None


def load_workflow(target: str, config_dir: Path) -> LoadedWorkflow:
    """Import what `rollout.user_workflow` names and check its shape."""
    from astuner.plugins.catalog import Catalog
    from astuner.plugins.drivers import load

    candidate = Catalog.discover().find("workflows", target, config_dir=config_dir, key="astuner.rollout.user_workflow")
    found = load(candidate)
    if inspect.isclass(found) and find_offer(found, PlaysEpisodes) is not None:
        naming = find_offer(found, NamesTargets)
        targets = None if naming is None else tuple(naming.trainable_targets)
        return LoadedWorkflow(make=cast("type[Workflow]", found), trainable_targets=targets)
    if inspect.iscoroutinefunction(found):
        _check_arguments(found, target)
        return LoadedWorkflow(make=lambda: FunctionWorkflow(found), trainable_targets=None)
    raise PluginError(
        f"astuner.rollout.user_workflow: {target} is {found!r}; it must be a class with "
        "`async def execute(self, workflow_task, tuner)` or an `async def workflow(task, model, ...)`"
    )


def _check_arguments(function: Callable[..., Any], target: str) -> None:
    names = set(inspect.signature(function).parameters)
    if not {"task", "model"} <= names <= FUNCTION_ARGUMENTS:
        raise PluginError(
            f"astuner.rollout.user_workflow: {target} takes ({', '.join(sorted(names))}); a workflow function takes "
            "`task` and `model`, and optionally `auxiliary_models` and `logger`"
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
