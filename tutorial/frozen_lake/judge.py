"""The judge: what the environment says at the end is the reward."""

from __future__ import annotations

from astuner import WorkflowOutput, WorkflowTask


class Crossed:
    """1 at the goal and 0 elsewhere, as in the original game; nothing tells how near it was."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        score = workflow_output.metadata["score"]
        return score, score == 1.0
