"""The judge: the right sign counts 1, less a tenth for each check."""

from __future__ import annotations

from numbers_game import is_right

from astuner import WorkflowOutput, WorkflowTask

CHECK_COST = 0.1


class Reached:
    """A guess without a check is right in a third of the rounds, and worth less than a check or two."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        right = is_right(workflow_output.metadata["answer"], workflow_task.task.metadata)
        return right * (1.0 - CHECK_COST * workflow_output.metadata["checks"]), right
