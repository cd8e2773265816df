"""The judge: how much nearer the robot came."""

from __future__ import annotations

from floor import measure

from astuner import WorkflowOutput, WorkflowTask


class WayCovered:
    """The share of the way that the robot covered; 0 if it is no nearer than at first."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        left = workflow_output.metadata["left"]
        return max(0.0, 1 - left / measure(workflow_task.task.metadata["way"])), left == 0
