"""The judge: found, or how much is ruled out. And a coin, for the control."""

from __future__ import annotations

from random import Random

from agent import GUESSES

from astuner import Verdict, WorkflowOutput, WorkflowTask


class Found:
    """1 if the number is found, else half of the share of the range that its guesses have ruled out."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Judge one game.

        `form` says whether every answer was a number of the range. `listened` is the share of the guesses after the first
        that fit what the player had heard, in games that have one.
        """
        row, guesses = workflow_task.task.metadata, workflow_output.metadata["guesses"]
        low, high, secret = row["low"], row["high"], row["secret"]
        width = high - low + 1
        won = secret in guesses
        parts = {"form": float(all(low <= guess <= high for guess in guesses) and (won or len(guesses) == GUESSES))}
        fits = []
        for guess in guesses:
            fits.append(low <= guess <= high)
            low, high = (max(low, guess + 1), high) if secret > guess else (low, min(high, guess - 1))
        if len(fits) > 1:
            parts["listened"] = sum(fits[1:]) / len(fits[1:])
        ruled_out = 1 - (high - low + 1) / width
        return Verdict(reward=1.0 if won else ruled_out / 2, is_success=won, components=parts)


class Coin(Found):
    """The control: 0 or 1 by chance, whatever the player does. Successes are those of the other judge."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Toss a coin, the same one whenever this episode is judged."""
        verdict = super().compute_reward(workflow_task, workflow_output)
        toss = float(Random(workflow_task.episode_id).random() < 0.5)
        return Verdict(reward=toss, is_success=verdict.is_success, components=verdict.components)
