"""Advantages of a step's groups, computed once for every backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from attrs import frozen

from astuner.protocols import Estimator
from astuner.schema import Episode, Group, Sample


@frozen(kw_only=True, eq=False)
class WeightedSample:
    """A sample with the advantage of its episode and agent."""

    sample: Sample
    advantage: float
    group: str
    """Identity of the task group; its rows share prefixes."""


def compute_advantages(
    groups: Sequence[Group],
    estimator: Estimator,
    penalties: Mapping[tuple[str, str], float] | None = None,
    *,
    by_agent: bool = True,
) -> list[WeightedSample]:
    """Return every sample of the rewarded episodes with its advantage, in the order of groups, repeats and samples.

    Siblings are compared per (task, agent): each agent of an episode against the same agent of the others. With `by_agent` off
    (`trainer_common.algorithm.norm_adv_by_agent`) they are compared per task: each agent against all agents of all siblings.
    Episodes without a reward take no part, neither as a sample nor in a mean. `penalties` are subtracted from the rewards before
    the comparison, by (episode id, agent): the divergence from the reference model, when it is part of the reward.
    """
    penalties = penalties or {}
    compared = [entries for group in groups for entries in _group_comparable_rewards(group, by_agent)]
    rewards = [np.array([reward - penalties.get(who, 0.0) for who, reward in entries], dtype=np.float64) for entries in compared]
    found: dict[tuple[str, str], float] = {}
    for entries, values in zip(compared, estimator.advantages(rewards), strict=True):
        found.update({who: float(value) for (who, _), value in zip(entries, values, strict=True)})
    return [
        WeightedSample(sample=sample, advantage=found[episode.id, sample.agent], group=group.key)
        for group in groups
        for episode in group.episodes
        for sample in episode.samples
        if (episode.id, sample.agent) in found
    ]


def has_no_signal(group: Group, *, by_agent: bool = True) -> bool:
    """Whether all rewards that are compared are equal, so that there is no group-relative gradient."""
    return all(len({reward for _, reward in entries}) < 2 for entries in _group_comparable_rewards(group, by_agent))


def list_trained_agents(episode: Episode) -> list[str]:
    """Return the agents of an episode's samples, in their order."""
    return list(dict.fromkeys(sample.agent for sample in episode.samples))


def _group_comparable_rewards(group: Group, by_agent: bool) -> list[list[tuple[tuple[str, str], float]]]:
    """Return the lists that are compared, of (episode id, agent) with the reward of each."""
    found: dict[str, list[tuple[tuple[str, str], float]]] = {}
    for episode in group.episodes:
        for agent in list_trained_agents(episode):
            entries = found.setdefault(agent if by_agent else "", [])
            reward = episode.reward_of(agent)
            if reward is not None:
                entries.append(((episode.id, agent), reward))
    return list(found.values())
