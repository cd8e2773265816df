"""The judge: turns an answer into a reward."""

from __future__ import annotations

import re

from astuner import WorkflowOutput, WorkflowTask


class ExactAnswer:
    r"""1 if the number in `\boxed{...}` is the task's answer, else 0."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        boxed = re.findall(r"\\boxed\{(-?\d+)\}", workflow_output.metadata["final_answer"])
        right = bool(boxed) and int(boxed[-1]) == workflow_task.task.metadata["answer"]
        return float(right), right
