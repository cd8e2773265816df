"""The control of the gallery: a reward that has nothing to do with the answer, from which nothing can be learnt."""

from __future__ import annotations

from random import Random

from astuner import WorkflowOutput, WorkflowTask


class Coin:
    """1 or 0, tossed for each episode; the same episode gets the same again."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        """Return the reward; whether it is a success is for the other judge to say."""
        return float(Random(workflow_task.episode_id).random() < 0.5)
