"""Advantages of a step's groups, computed once for every backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from astuner.contract.protocols import Estimator, EstimatorTraits
from astuner.contract.protocols.traits import read_traits
from astuner.contract.schema import Episode, Group, Sample
from astuner.episodes.judging.estimators import agree

Values = NDArray[np.float64]

ROUNDED = 1e-9
"""Among equal rewards, an advantage up to this size is a rounding error. AdamW would make full steps of it."""

Owner = tuple[str, str]
"""An episode's id, and one of its agents."""


@frozen(kw_only=True, eq=False)
class WeightedSample:
    """A sample with the advantage of its episode and agent."""

    sample: Sample
    advantage: float
    """That of all trained tokens; their mean if they differ."""
    group: str
    """Identity of the task group; its rows share prefixes."""
    token_advantages: Values | None = None
    """[trained tokens], where they differ."""

    @property
    def live_tokens(self) -> int:
        """Number of trained tokens whose advantage is not 0."""
        if self.token_advantages is not None:
            return int(np.count_nonzero(self.token_advantages))
        return self.sample.trained if self.advantage else 0

    def spread(self) -> Values:
        """Return the advantages of the trained tokens."""
        return np.full(self.sample.trained, self.advantage) if self.token_advantages is None else self.token_advantages


@frozen(kw_only=True)
class RewardedAgent:
    """One of those that are compared: an agent of a rewarded episode."""

    owner: Owner
    reward: float
    tokens: int
    """Its trained tokens, over all of its samples."""


def compute_advantages(
    groups: Sequence[Group], estimator: Estimator, penalties: Mapping[Owner, Values] | None = None, *, by_agent: bool = True
) -> list[WeightedSample]:
    """Return every sample of the rewarded episodes with its advantage, in the order of groups, repeats and samples.

    Siblings are compared per (task, agent): each agent of an episode against the same agent of the others. With `by_agent` off
    (`trainer_common.algorithm.norm_adv_by_agent`) they are compared per task: each agent against all agents of all siblings.
    Episodes without a reward take no part, neither as a sample nor in a mean. `penalties`, of each trained token of an episode's
    agent in the order of its samples, are subtracted from the reward: the divergence from the reference model, when it is part of
    the reward.
    """
    compared = [entries for group in groups for entries in list_compared(group, by_agent=by_agent)]
    found = estimate_advantages(compared, estimator, penalties)
    rows = []
    seen: dict[Owner, int] = {}
    for group in groups:
        for episode in group.episodes:
            for sample in episode.samples:
                owner = (episode.id, sample.agent)
                if owner in found:
                    start = seen.get(owner, 0)
                    seen[owner] = start + sample.trained
                    rows.append(_weigh(sample, found[owner], start, group.key))
    return rows


def estimate_advantages(
    compared: Sequence[Sequence[RewardedAgent]], estimator: Estimator, penalties: Mapping[Owner, Values] | None = None
) -> dict[Owner, float | Values]:
    """Return the advantage of each; an array of its trained tokens' where these differ.

    Penalties shift advantages and create none: what has none without them, a group or a step compared as a whole, keeps 0.
    Otherwise the spread of the penalties alone would be divided by itself, and their rounding become advantages of unit size.
    """
    plain = _ask(estimator, compared, {})
    if not penalties:
        return {owner: value for group in plain for owner, value in group.items()}
    shifted = _ask(estimator, compared, penalties)
    live = [any(np.any(value) for value in group.values()) for group in plain]
    if not is_group_relative(estimator):
        live = [any(live)] * len(live)
    chosen = [after if has else before for has, before, after in zip(live, plain, shifted, strict=True)]
    return {owner: value for group in chosen for owner, value in group.items()}


def is_group_relative(estimator: Estimator) -> bool:
    """Whether each group is compared within itself, so that one whose rewards agree gives no signal."""
    return read_traits(estimator, EstimatorTraits).group_relative


def has_no_signal(group: Group, *, by_agent: bool = True) -> bool:
    """Whether all rewards that are compared are equal, or nothing is trained, so that there is no group-relative gradient."""
    return all(
        agree(np.array([one.reward for one in entries], dtype=np.float64)) or not any(one.tokens for one in entries)
        for entries in list_compared(group, by_agent=by_agent)
    )


def list_trained_agents(episode: Episode) -> list[str]:
    """Return the agents of an episode's samples, in their order."""
    return list(dict.fromkeys(sample.agent for sample in episode.samples))


def list_compared(group: Group, *, by_agent: bool) -> list[list[RewardedAgent]]:
    """Return the lists whose members are compared with each other.

    A rewarded episode without a sample, such as one whose only call took too long, still counts in the mean: as the agents of
    its trained calls, or as all agents of its siblings.
    """
    everyone = list(dict.fromkeys(agent for episode in group.episodes for agent in list_trained_agents(episode)))
    found: dict[str, list[RewardedAgent]] = {}
    for episode in group.episodes:
        asked = dict.fromkeys(call.agent for call in episode.calls if call.untrained is None)
        for agent in list_trained_agents(episode) or list(asked) or everyone:
            entries = found.setdefault(agent if by_agent else "", [])
            reward = episode.reward_of(agent)
            if reward is not None:
                tokens = sum(sample.trained for sample in episode.samples if sample.agent == agent)
                entries.append(RewardedAgent(owner=(episode.id, agent), reward=reward, tokens=tokens))
    return list(found.values())


def _ask(
    estimator: Estimator, compared: Sequence[Sequence[RewardedAgent]], penalties: Mapping[Owner, Values]
) -> list[dict[Owner, float | Values]]:
    taken = [[penalties.get(one.owner, np.zeros(one.tokens)) for one in entries] for entries in compared]
    rewards = [
        np.array([one.reward - float(lost.sum()) for one, lost in zip(entries, group, strict=True)], dtype=np.float64)
        for entries, group in zip(compared, taken, strict=True)
    ]
    given: Sequence[Sequence[float | Values]]
    if not read_traits(estimator, EstimatorTraits).weighs_tokens:
        given = [[float(value) for value in group] for group in estimator.advantages(rewards)]
    else:
        # The reward, less the penalties from each token on.
        returns = [
            [one.reward - np.cumsum(lost[::-1])[::-1] for one, lost in zip(entries, group, strict=True)]
            for entries, group in zip(compared, taken, strict=True)
        ]
        given = [[_shorten(tokens) for tokens in group] for group in cast("Any", estimator).token_advantages(rewards, returns)]
    return [
        {one.owner: value for one, value in zip(entries, _round_off(entries, group), strict=True)}
        for entries, group in zip(compared, given, strict=True)
    ]


def _round_off(entries: Sequence[RewardedAgent], group: Sequence[float | Values]) -> Sequence[float | Values]:
    """Return exactly 0 for the advantages of equal rewards that an estimator meant to be 0, such as those of `r - mean`."""
    rewards = np.array([one.reward for one in entries], dtype=np.float64)
    if agree(rewards) and all(np.all(np.abs(value) <= ROUNDED) for value in group):
        return [0.0] * len(group)
    return group


def _shorten(tokens: Values) -> float | Values:
    """Return one number if all tokens have the same."""
    if tokens.size and (tokens != tokens[0]).any():
        return tokens
    return float(tokens[0]) if tokens.size else 0.0


def _weigh(sample: Sample, advantage: float | Values, start: int, group: str) -> WeightedSample:
    if isinstance(advantage, float):
        return WeightedSample(sample=sample, advantage=advantage, group=group)
    own = advantage[start : start + sample.trained]
    mean = float(own.mean()) if own.size else 0.0
    return WeightedSample(sample=sample, advantage=mean, group=group, token_advantages=own)
