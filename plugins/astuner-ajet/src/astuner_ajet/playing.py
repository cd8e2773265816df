"""Playing a workflow of AgentJet in a run of astuner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from attrs import evolve

import ajet
import astuner
from ajet.tuner import AjetTuner, ContextTracker
from astuner_ajet.environment import BlockingEnvironment
from astuner_ajet.settings import Settings, read_settings
from astuner_ajet.tasks import to_ajet_task, to_astuner_output
from astuner_ajet.tokenizer import LazyTokenizer

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo


class Player(astuner.Workflow):
    """Plays one workflow class, each episode in a thread whose event loop that class may block."""

    agent: ClassVar[type[ajet.Workflow]]

    def __init__(self, config: Settings, model_path: str, chat_template: str | None = None) -> None:
        """`model_path` is where the tokenizer is."""
        self._config, self._tokenizer = config, LazyTokenizer(model_path, chat_template)

    @classmethod
    def from_run(cls, options: None, run_info: RunInfo | None) -> Player:
        """Make what plays an episode."""
        settings = read_settings(run_info)
        if run_info is None:
            return cls(settings, "")
        return cls(settings, run_info.config.model.path, run_info.config.model.chat_template)

    # A plain function, so that it is played in a thread.
    def execute(self, workflow_task: astuner.WorkflowTask, tuner: astuner.Tuner) -> Any:
        """Return what plays the episode."""
        return self._play(workflow_task, tuner)

    async def _play(self, workflow_task: astuner.WorkflowTask, tuner: astuner.Tuner) -> Any:
        environment = workflow_task.gym_env
        if environment is not None:
            messages = list(await environment.reset())
            # A reader that wrote the first messages itself has the last word.
            if messages and not workflow_task.task.init_messages:
                query = str(messages[-1].get("content") or "")
                workflow_task = evolve(workflow_task, task=evolve(workflow_task.task, init_messages=messages, main_query=query))
        agent = self.agent()
        task = to_ajet_task(
            workflow_task,
            tokenizer=self._tokenizer,
            gym_env=None if environment is None else BlockingEnvironment(environment),
        )
        tracker = ContextTracker(episode_uuid=workflow_task.episode_id, task_id=workflow_task.task_id)
        own = AjetTuner(tuner, self._config, agent.trainable_targets, tracker)
        return to_astuner_output(await agent.execute(task, own))


def make_player(agent: type[ajet.Workflow]) -> type[Player]:
    """Return the class that plays a workflow class; an empty list of targets trains every call, as None does."""
    declared = agent.model_fields["trainable_targets"].get_default(call_default_factory=True)
    targets: Sequence[str] | None = declared or None
    return type(agent.__name__, (Player,), {"agent": agent, "trainable_targets": targets, "__module__": agent.__module__})
