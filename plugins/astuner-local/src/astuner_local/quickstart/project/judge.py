"""The judge: what an episode is worth. `judge_type: math` (astuner-judges) reads answers more generously."""

from __future__ import annotations


class ExactAnswer:
    """Gives 1 to a text that ends with the right number in a box, else 0."""

    def compute_reward(self, workflow_task, workflow_output):
        box = f"\\boxed{{{workflow_task.task.metadata['answer']}}}"
        right = workflow_output.metadata["final_answer"].strip().endswith(box)
        return float(right), right  # the reward, and whether it counts as a success
