"""Advantages of a step's groups, computed once for every backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from astuner.protocols import Estimator
from astuner.schema import Group, Sample


@frozen(kw_only=True, eq=False)
class Weighted:
    """A sample with the advantage of its episode and agent."""

    sample: Sample
    advantage: float
    group: str
    """Identity of the task group; its rows share prefixes."""


def weigh(
    groups: Sequence[Group], estimator: Estimator, penalties: Mapping[tuple[str, str], float] | None = None
) -> list[Weighted]:
    """Return every sample of the rewarded episodes with its advantage, in the order of groups, repeats and samples.

    Siblings are compared per (task, agent): each agent of an episode against the same agent of the others.
    Episodes without a reward take no part, neither as a sample nor in a mean. `penalties` are taken off the rewards before
    the comparison, by (episode id, agent): the divergence from the reference model, when it is part of the reward.
    """
    penalties = penalties or {}
    rows: list[tuple[str, str]] = []
    rewards: list[np.ndarray] = []
    members: list[list[str]] = []
    for group in groups:
        for agent in _agents(group):
            entitled = [e for e in group.episodes if e.reward_of(agent) is not None and any(s.agent == agent for s in e.samples)]
            rows.append((group.key, agent))
            paid = [(e.reward_of(agent) or 0.0) - penalties.get((e.id, agent), 0.0) for e in entitled]
            rewards.append(np.array(paid, dtype=np.float64))
            members.append([e.id for e in entitled])
    found: dict[tuple[str, str], float] = {}
    for (_, agent), ids, values in zip(rows, members, estimator.advantages(rewards), strict=True):
        found.update({(episode, agent): float(value) for episode, value in zip(ids, values, strict=True)})
    return [
        Weighted(sample=sample, advantage=found[episode.id, sample.agent], group=group.key)
        for group in groups
        for episode in group.episodes
        for sample in episode.samples
        if (episode.id, sample.agent) in found
    ]


def _agents(group: Group) -> list[str]:
    return list(dict.fromkeys(sample.agent for episode in group.episodes for sample in episode.samples))


def without_signal(group: Group) -> bool:
    """Whether all rewarded episodes of a group have the same rewards, so that no group-relative gradient comes of it."""
    rewards = [(e.reward, tuple(sorted((e.verdict.rewards or {}).items()))) for e in group.episodes if e.reward is not None]  # type: ignore[union-attr]  # a reward implies a Verdict
    return len(set(rewards)) < 2
