"""The judge: found or not. And a coin, for the control."""

from __future__ import annotations

from random import Random

from agent import GUESSES

from astuner import Verdict, WorkflowOutput, WorkflowTask


class Found:
    """1 if the number is found, else 0. How, is up to the model."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Judge one game.

        `form` says whether every answer was a number of the range. `listened` is the share of the guesses after the first
        that fit what the player had heard, in games that have one.
        """
        row, guesses = workflow_task.task.metadata, workflow_output.metadata["guesses"]
        low, high, secret = row["low"], row["high"], row["secret"]
        won = secret in guesses
        parts = {"form": float(all(low <= guess <= high for guess in guesses) and (won or len(guesses) == GUESSES))}
        fits = []
        for guess in guesses:
            fits.append(low <= guess <= high)
            low, high = (max(low, guess + 1), high) if secret > guess else (low, min(high, guess - 1))
        if len(fits) > 1:
            parts["listened"] = sum(fits[1:]) / len(fits[1:])
        return Verdict(reward=float(won), is_success=won, components=parts)


class Coin(Found):
    """The control: 0 or 1 by chance, whatever the player does. Successes are those of the other judge."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        """Toss a coin, the same one whenever this episode is judged."""
        verdict = super().compute_reward(workflow_task, workflow_output)
        toss = float(Random(workflow_task.episode_id).random() < 0.5)
        return Verdict(reward=toss, is_success=verdict.is_success, components=verdict.components)
