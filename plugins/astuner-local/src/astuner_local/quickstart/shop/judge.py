"""The judge: turns an episode into a reward."""

from __future__ import annotations

import re

from astuner import WorkflowOutput, WorkflowTask


class RightPrice:
    """1 if the item was looked up once and the answer has its price and no other number; 0.3 for that look-up alone; else 0."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        task, played = workflow_task.task.metadata, workflow_output.metadata
        numbers = re.findall(r"\d+", played["final_answer"])
        # Paid by the look-up, a model may learn to look up again and again, and never to answer.
        looked = played["looked_up"] == [task["item"]]
        right = looked and numbers == [task["price"]]
        return (1.0 if right else 0.3 * looked), right
