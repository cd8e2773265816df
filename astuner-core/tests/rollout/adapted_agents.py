"""Agents that another class plays, for processes that load them again."""

from __future__ import annotations

from typing import Any

from astuner import Workflow, WorkflowOutput, WorkflowTask
from astuner.contract.protocols import WorkflowTraits


class Plays(Workflow):
    """Plays a `Foreign` agent, and knows the run."""

    trainable_targets = ("solver",)

    def __init__(self, agent: type[Any], run_info: Any) -> None:
        self._agent, self._run_info = agent, run_info

    @classmethod
    def from_run(cls, options: None, run_info: Any) -> Plays:
        return cls(Foreign, run_info)

    def execute(self, workflow_task: WorkflowTask, tuner: Any) -> Any:
        return self._play(workflow_task)

    async def _play(self, workflow_task: WorkflowTask) -> WorkflowOutput:
        found = {"seed": self._run_info.seed, "settings": dict(workflow_task.settings), "said": self._agent().speak()}
        return WorkflowOutput(reward=1.0, metadata=found)


class Foreign:
    """An agent of another library."""

    traits = WorkflowTraits(adapts=True)

    def __init__(self, greeting: str = "hello") -> None:
        self._greeting = greeting

    def speak(self) -> str:
        return self._greeting

    @classmethod
    def as_workflow(cls) -> type[Workflow]:
        return Plays
