"""Advantages of a step's groups, computed once for every backbone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from astuner.contract.errors import PluginError
from astuner.contract.protocols import Estimator, EstimatorTraits, Outcome, Streams
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
    likelihood: Values | None = None
    """[trained tokens] of `Streams`; None for 0, as the next."""
    divergence: Values | None = None
    reference: Values | None = None
    """[trained tokens] log ρ, where there is a divergence."""

    @property
    def others(self) -> dict[str, Values]:
        """What there is beside advantages: by the names of these fields."""
        given = {"likelihood": self.likelihood, "divergence": self.divergence, "reference": self.reference}
        return {name: values for name, values in given.items() if values is not None}

    @property
    def live_tokens(self) -> int:
        """Number of trained tokens that count in some term of the loss."""
        if self.token_advantages is None and not self.others:
            return self.sample.trained if self.advantage else 0
        weights = (self.spread(), *(values for name, values in self.others.items() if name != "reference"))
        return int(np.count_nonzero(np.any(weights, axis=0)))

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
    groups: Sequence[Group],
    estimator: Estimator,
    penalties: Mapping[Owner, Values] | None = None,
    *,
    by_agent: bool = True,
    scores: Mapping[str, Mapping[Owner, Values]] | None = None,
) -> list[WeightedSample]:
    """Return every sample of the rewarded episodes with its advantage, in the order of groups, repeats and samples.

    Siblings are compared per (task, agent): each agent of an episode against the same agent of the others. With `by_agent` off
    (`trainer_common.algorithm.norm_adv_by_agent`) they are compared per task: each agent against all agents of all siblings.
    Episodes without a reward take no part, neither as a sample nor in a mean. `penalties`, of each trained token of an episode's
    agent in the order of its samples, are subtracted from the reward: the divergence from the reference model, when it is part of
    the reward. `scores` are the log-probabilities of these tokens by each model that the estimator names (`scored_by`); the
    sampler's stand in for those of a model that scores nothing, as where nothing is trained.
    """
    found: Mapping[Owner, float | Values | _TokenStreams]
    if read_traits(estimator, EstimatorTraits).gives_streams:
        found = _ask_for_streams(groups, estimator, penalties or {}, by_agent, scores or {})
    else:
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


def _weigh(sample: Sample, signal: float | Values | _TokenStreams, start: int, group: str) -> WeightedSample:
    part, others = slice(start, start + sample.trained), {}
    if isinstance(signal, _TokenStreams):
        others = {name: values[part] for name, values in signal.others.items()}
        signal, part = _shorten(signal.advantages[part]), slice(None)
    if isinstance(signal, float):
        return WeightedSample(sample=sample, advantage=signal, group=group, **others)
    own = signal[part]
    mean = float(own.mean()) if own.size else 0.0
    return WeightedSample(sample=sample, advantage=mean, group=group, token_advantages=own, **others)


@frozen(eq=False)
class _TokenStreams:
    """Those of all samples of one owner, [trained tokens] each."""

    advantages: Values
    others: Mapping[str, Values]
    """By the fields of `WeightedSample`; those that are 0 throughout are left out."""


def _ask_for_streams(
    groups: Sequence[Group],
    estimator: Estimator,
    penalties: Mapping[Owner, Values],
    by_agent: bool,
    scores: Mapping[str, Mapping[Owner, Values]],
) -> dict[Owner, _TokenStreams]:
    given = {name: scores.get(name, {}) for name in read_traits(estimator, EstimatorTraits).scored_by}
    compared = [
        [_describe(group, one, penalties, given) for one in entries]
        for group in groups
        for entries in list_compared(group, by_agent=by_agent)
    ]
    found = cast("Any", estimator).signal(compared)
    if [len(group) for group in found] != [len(group) for group in compared]:
        raise PluginError(f"{type(estimator).__qualname__}.signal must return one Streams per outcome, group by group")
    pairs = [pair for group in zip(compared, found, strict=True) for pair in zip(*group, strict=True)]
    return {(outcome.episode.id, outcome.agent): _read_streams(outcome, streams, estimator) for outcome, streams in pairs}


def _describe(
    group: Group, one: RewardedAgent, penalties: Mapping[Owner, Values], scores: Mapping[str, Mapping[Owner, Values]]
) -> Outcome:
    identity, agent = one.owner
    episode = next(episode for episode in group.episodes if episode.id == identity)
    samples = [sample for sample in episode.samples if sample.agent == agent]
    lost = penalties.get(one.owner, np.zeros(one.tokens))
    logprobs = np.concatenate([np.zeros(0), *(sample.logprobs[sample.mask] for sample in samples)])
    return Outcome(
        episode=episode,
        agent=agent,
        reward=one.reward - float(lost.sum()),
        returns=one.reward - np.cumsum(lost[::-1])[::-1],
        logprobs=logprobs,
        calls=np.concatenate([np.zeros(0, np.int64), *(_identify_calls(sample, episode) for sample in samples)]),
        scores={model: found.get(one.owner, logprobs) for model, found in scores.items()},
        greedy=None if group.greedy is None else group.greedy.reward_of(agent),
    )


def _identify_calls(sample: Sample, episode: Episode) -> NDArray[np.int64]:
    """Return the call of each trained token."""
    lengths = {call.index: len(call.output_ids) for call in episode.calls}
    sizes = [lengths.get(index, 0) for index in sample.calls]
    if sum(sizes) == sample.trained:
        return np.repeat(np.array(sample.calls, np.int64), sizes)
    # A part of a call is trained: what is between two stretches of trained tokens is another call's prompt.
    begins = np.diff(sample.mask.astype(np.int8), prepend=0) == 1
    stretches = (np.cumsum(begins) - 1)[sample.mask]
    return np.array(sample.calls, np.int64)[np.minimum(stretches, len(sample.calls) - 1)] if sample.trained else stretches


def _read_streams(outcome: Outcome, streams: Streams, estimator: Estimator) -> _TokenStreams:
    blame = f"{type(estimator).__qualname__}.signal"

    def read(name: str, value: Any) -> Values:
        values = np.asarray(value, np.float64)
        if values.shape not in ((), (outcome.tokens,)) or not np.isfinite(values).all():
            shape = f"{outcome.tokens} trained tokens of agent {outcome.agent!r} in episode {outcome.episode.id!r}"
            found = f"an array of shape {list(values.shape)}" if np.isfinite(values).all() else "a number that is not finite"
            raise PluginError(f"{blame} gave {found} as {name} for {shape}")
        return np.broadcast_to(values, (outcome.tokens,))

    others = {name: read(name, getattr(streams, name)) for name in ("likelihood", "divergence")}
    others = {name: values for name, values in others.items() if values.any()}
    if others and not read_traits(estimator, EstimatorTraits).beyond_advantages:
        raise PluginError(f"{blame} gave a {next(iter(others))}: its traits must say beyond_advantages=True")
    if "divergence" in others:
        references = {"sampler": outcome.logprobs, **outcome.scores}
        if streams.reference not in references:
            raise PluginError(f"{blame} named the reference {streams.reference!r}; there are: {', '.join(references)}")
        others["reference"] = read("reference", references[streams.reference])
    return _TokenStreams(read("advantages", streams.advantages), others)
