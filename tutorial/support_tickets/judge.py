"""The judge: right or wrong."""

from __future__ import annotations

from astuner import WorkflowOutput, WorkflowTask


class RightQueue:
    """1 if the ticket is in the queue of its row, else 0."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        right = workflow_output.metadata["queue"] == workflow_task.task.metadata["queue"]
        return float(right), right
