"""The judge: the right price, looked up once. And a coin, for the control."""

from __future__ import annotations

import re
from random import Random

from astuner import Verdict, WorkflowOutput, WorkflowTask

FOR_LOOKING = 0.3
"""Reward of an episode that looks the right item up, once, and then does not answer with its price."""


class RightPrice:
    """1 for one look-up, that of the item, and an answer whose only number is the price."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Judge one episode; `looked` says whether it looked up as it should."""
        row, said = workflow_task.task.metadata, workflow_output.metadata
        # Paid by the look-up, a model may learn to look up again and again, and never to answer.
        looked = said["looked_up"] == [row["item"]]
        right = looked and re.findall(r"\d+", said["answer"]) == [row["price"]]
        return Verdict(reward=1.0 if right else FOR_LOOKING * looked, is_success=right, components={"looked": float(looked)})


class Coin(RightPrice):
    """The control: 0 or 1 by chance, whatever the agent does. Successes are those of the other judge."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Toss a coin, the same one whenever this episode is judged."""
        verdict = super().compute_reward(workflow_task, workflow_output)
        toss = float(Random(workflow_task.episode_id).random() < 0.5)
        return Verdict(reward=toss, is_success=verdict.is_success, components=verdict.components)
