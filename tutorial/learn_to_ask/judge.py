"""The judge: the right table counts 1, and every question costs a fifth."""

from __future__ import annotations

from astuner import WorkflowOutput, WorkflowTask

QUESTION_COST = 0.2


class Booking:
    """Asking for everything books the right table too, and earns less."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward; a success is the right table without a needless question."""
        booked, questions = workflow_output.metadata["booked"], workflow_output.metadata["questions"]
        reward = max(0.0, 1.0 - QUESTION_COST * questions) if booked else 0.0
        return reward, booked and questions <= workflow_task.task.metadata["hidden"]
