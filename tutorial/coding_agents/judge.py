"""The judge: what the agent has left in its sandbox."""

from __future__ import annotations

from astuner import WorkflowOutput, WorkflowTask


class RightFile:
    """1 if `out.txt` holds what was asked for, 0.2 if it holds something else, 0 if it is missing or empty."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        text = workflow_output.metadata["files"].get("out.txt", "")
        right = text == workflow_task.task.metadata["wanted"]
        return 1.0 if right else 0.2 * bool(text), right
