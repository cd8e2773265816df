"""The base class of workflows."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from ajet.schema.task import WorkflowOutput, WorkflowTask
from ajet.tuner import AjetTuner
from astuner.contract.protocols import WorkflowTraits

__all__ = ["AjetTuner", "Workflow", "WorkflowOutput", "WorkflowTask"]


class Workflow(BaseModel):
    """A user's agent: a new instance plays each episode, in a thread with an event loop of its own, which it may block."""

    traits: ClassVar[WorkflowTraits] = WorkflowTraits(adapts=True)

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    name: str = Field(default="default_workflow", description="Name of the workflow.")
    trainable_targets: list[str] | None = Field(default=None, description="Target tags that are trained; None trains all.")

    async def execute(self, workflow_task: WorkflowTask, tuner: AjetTuner) -> WorkflowOutput:
        """Play one episode; older code has the method `agentscope_execute(workflow_task, model_tuner)` instead."""
        older: Any = self
        output: WorkflowOutput = await older.agentscope_execute(workflow_task, tuner)
        return output

    @classmethod
    def as_workflow(cls) -> type[Any]:
        """Return the class that plays this one in a run of astuner; raises TypeError if no method plays an episode."""
        from astuner_ajet.playing import make_player

        if cls.execute is Workflow.execute and not callable(getattr(cls, "agentscope_execute", None)):
            raise TypeError(f"{cls.__name__} has no method `async def execute(self, workflow_task, tuner)`")
        return make_player(cls)
