"""Finds failures that are worth more than a completed episode: a model that is trained with them learns to fail."""

from __future__ import annotations

from collections.abc import Sequence

from astuner.contract.schema import Episode, Group, Verdict


def describe_rewarding_failures(groups: Sequence[Group]) -> dict[str, str]:
    """Return a notice for each key of `rollout.failure_rewards` that gives more than the lowest reward of a completed episode."""
    episodes = [episode for group in groups for episode in group.episodes]
    lowest = min((episode.reward for episode in episodes if episode.completed and episode.reward is not None), default=None)
    if lowest is None:
        return {}
    worth = {episode.failures[-1].reason: episode.reward for episode in episodes if _failed_with_reward(episode)}
    return {
        f"rollout.failure_rewards.{reason}": (
            f"rollout.failure_rewards.{reason}: an episode that fails for this reason gets {reward:g}, and a completed one got "
            f"{lowest:g}. The model can learn to fail instead of answering. Set this key to the lowest reward that you give."
        )
        for reason, reward in sorted(worth.items())
        if reward is not None and reward > lowest
    }


def _failed_with_reward(episode: Episode) -> bool:
    return not episode.completed and isinstance(episode.verdict, Verdict) and bool(episode.failures)
