"""A judge function as AgentScope's `tune()` takes it: `judge(task, response, auxiliary_models, logger)`."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from astuner.contract.schema import WorkflowOutput, WorkflowTask
from astuner.contract.user_values.named_arguments import ARGUMENTS, choose_arguments
from astuner.contract.user_values.responses import restore_response
from astuner.episodes.judging.judge_calls import run_in_thread
from astuner.episodes.judging.judge_tuner import find_tuner
from astuner.settings.config.auxiliary_models import AuxiliaryModel
from astuner.shared.clients.agentscope_models import close_models, make_endpoint_model
from astuner.shared.tabular.original_row import restore_row


class TuneFunction:
    """Calls the function for an episode, with those of its arguments that it names.

    `task` is the row as it was read, with `main_query` and `task_id`. `response` is what the workflow answered: the object
    itself in the process that played the episode; in other processes, after a resume and in a replay, a message of AgentScope
    with the same name, role, content and metadata, a JSON value, or the text of anything else. `auxiliary_models` are the chat
    models of `rollout.auxiliary_models` by name, not streaming, and `logger` is the logger `astuner.judge`.
    """

    def __init__(self, function: Callable[..., Any], auxiliary_models: Mapping[str, AuxiliaryModel]) -> None:
        """Keep the function, and the models that it may name."""
        self._function, self._models = function, auxiliary_models
        self._names = choose_arguments(function, ARGUMENTS["tune"])
        self.asks_models = bool(auxiliary_models) and "auxiliary_models" in self._names

    async def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        """Return what the function returns."""
        offered = {
            "task": restore_row(workflow_task.task),
            "response": restore_response(workflow_output),
            "logger": logging.getLogger("astuner.judge"),
        }
        async with AsyncExitStack() as stack:
            if "auxiliary_models" in self._names:
                offered["auxiliary_models"] = await self._open_models(stack, workflow_task.episode_id)
            arguments = {name: offered[name] for name in self._names}
            if inspect.iscoroutinefunction(self._function):
                return await self._function(**arguments)
            answer = await run_in_thread(partial(self._function, **arguments))
            return await answer if inspect.isawaitable(answer) else answer

    async def _open_models(self, stack: AsyncExitStack, episode_id: str) -> dict[str, Any]:
        frozen = [name for name, chosen in self._models.items() if chosen.is_frozen_target]
        models, shared = {}, {}
        if frozen:
            open_tuner = find_tuner()
            if open_tuner is None:
                raise RuntimeError(
                    f"the auxiliary model {frozen[0]!r} is the model in training, which answers only while its run goes on. Give "
                    f"rollout.auxiliary_models.{frozen[0]} a base_url and a model to judge stored episodes"
                )
            tuner = await stack.enter_async_context(open_tuner(episode_id))
            shared = tuner.as_agentscope_auxiliary_models()
        for name, chosen in self._models.items():
            models[name] = shared[name] if name in shared else make_endpoint_model(chosen)
        own = [model for name, model in models.items() if name not in frozen]
        stack.push_async_callback(close_models, own)
        return models
