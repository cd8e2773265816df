"""A small judge for tests of other components."""

from __future__ import annotations

from astuner.contract.schema import WorkflowOutput, WorkflowTask


class ExactAnswer:
    """Gives 1 for a `final_answer` that is the `answer` in the task's metadata, ignoring space around it; else 0."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return reward and success."""
        right = str(workflow_output.metadata["final_answer"]).strip() == str(workflow_task.task.metadata["answer"])
        return float(right), right
