"""The base class of workflows."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ajet.schema.task import WorkflowOutput, WorkflowTask
from ajet.tuner import AjetTuner

__all__ = ["AjetTuner", "Workflow", "WorkflowOutput", "WorkflowTask"]


class Workflow(BaseModel):
    """A user's agent: a new instance plays each episode, in a thread with an event loop of its own, which it may block."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)

    name: str = Field(default="default_workflow", description="Name of the workflow.")
    trainable_targets: list[str] | None = Field(default=None, description="Target tags that are trained; None trains all.")

    async def execute(self, workflow_task: WorkflowTask, tuner: AjetTuner) -> WorkflowOutput:
        """Play one episode."""
        raise NotImplementedError

    @classmethod
    def as_workflow(cls) -> type[Any]:
        """Return the class that plays this one in a run of astuner."""
        from astuner_ajet.playing import make_player

        return make_player(cls)
