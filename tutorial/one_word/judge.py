"""The judge: the right word and nothing else. And coins, for the controls."""

from __future__ import annotations

from random import Random

from astuner import Verdict, WorkflowOutput, WorkflowTask

LABELS = ("positive", "negative")


class OneWord:
    """1 for the right word; a capital and a full stop do not matter."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Judge one answer; `form` says whether it is one of the two words, `positive` whether it is that one."""
        word = workflow_output.metadata["answer"].strip().removesuffix(".").lower()
        right = word == workflow_task.task.metadata["label"]
        parts = {"form": float(word in LABELS), "positive": float(word == "positive")}
        return Verdict(reward=float(right), is_success=right, components=parts)


class Coin(OneWord):
    """The control: 0 or 1 by chance, whatever the answer. Successes are those of the other judge."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Toss a coin, the same one whenever this episode is judged."""
        verdict = super().compute_reward(workflow_task, workflow_output)
        return Verdict(reward=self.toss(workflow_task.episode_id), is_success=verdict.is_success, components=verdict.components)

    def toss(self, episode: str) -> float:
        """Return 0 or 1."""
        return float(Random(episode).random() < 0.5)


class OtherSide(Coin):
    """The same tosses with the sides exchanged: what moves a model one way with `Coin` moves it the other way here."""

    def toss(self, episode: str) -> float:
        """Return 1 where `Coin` returns 0."""
        return 1 - super().toss(episode)
