"""How the new verdicts of a split differ from the stored ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from attrs import define, evolve, field

from astuner.contract.schema import Episode, Group, Unjudged, Verdict
from astuner.episodes.judging.advantages import RewardedAgent, has_no_signal, list_compared
from astuner.episodes.judging.estimators import agree


@define(kw_only=True)
class Agreement:
    """The differences, counted and named; shares and means are None if there is nothing to count."""

    episodes: int = 0
    groups: int = 0
    agreement: float | None = None
    """The share of equal rewards, among the episodes that both judges gave one."""
    equal: int = 0
    different: int = 0
    gained: list[str] = field(factory=list)
    """Episodes with a reward now that had none."""
    lost: list[str] = field(factory=list)
    """Episodes without a reward now that had one."""
    lost_reasons: dict[str, int] = field(factory=dict)
    judge_failures: dict[str, int] = field(factory=dict)
    """Episodes that the judge failed on, by reason; those with a reward by `rollout.failure_rewards` too."""
    judge_failure_examples: dict[str, str] = field(factory=dict)
    """The first episode of each reason, and what happened in it, with file and line if code raised."""
    unjudged: int = 0
    """Completed episodes without a reward."""
    stored_rewarded: int = 0
    """Episodes that had a reward."""
    new_rewarded: int = 0
    stored_reward: float | None = None
    """The mean over the episodes that had a reward."""
    new_reward: float | None = None
    success_agreement: float | None = None
    """The share of equal successes, among the episodes whose success is known by both."""
    to_failure: list[str] = field(factory=list)
    """Episodes that were a success."""
    to_success: list[str] = field(factory=list)
    """Episodes that were none."""
    pairs: int = 0
    """Pairs of siblings with different stored rewards that both have a new one."""
    pairs_reversed: int = 0
    """Those that are now in the other order."""
    pairs_tied: int = 0
    """Those whose rewards are now equal."""
    swapped: list[str] = field(factory=list)
    """Groups in which an episode with the highest reward now has the lowest, and one with the lowest the highest."""
    signal_gained: list[str] = field(factory=list)
    """Groups whose rewards were all equal, and are not any more."""
    signal_lost: list[str] = field(factory=list)
    """Groups whose rewards are all equal now."""


@define(eq=False)
class AgreementCount:
    """Compares group after group."""

    by_agent: bool
    """Whether each agent of an episode is compared with the same agent of its siblings."""
    _found: Agreement = field(factory=Agreement, init=False)
    _lost_reasons: Counter[str] = field(factory=Counter, init=False)
    _judge_failures: Counter[str] = field(factory=Counter, init=False)
    _same_success: int = field(default=0, init=False)
    _stored_rewards: list[float] = field(factory=list, init=False)
    _new_rewards: list[float] = field(factory=list, init=False)

    def add(self, stored: Group, new: Group) -> None:
        """Compare a group with the same one with new verdicts."""
        self._found.groups += 1
        for before, after in zip(stored.episodes, new.episodes, strict=True):
            self._add_episode(before, after)
        self._add_order(stored, new)
        was_dead, is_dead = (has_no_signal(group, by_agent=self.by_agent) for group in (stored, new))
        if was_dead != is_dead:
            (self._found.signal_lost if is_dead else self._found.signal_gained).append(new.key)

    def sum_up(self) -> Agreement:
        """Return what was found so far."""
        found = self._found
        rewarded = found.equal + found.different
        decided = self._same_success + len(found.to_failure) + len(found.to_success)
        return evolve(
            found,
            agreement=found.equal / rewarded if rewarded else None,
            lost_reasons=dict(self._lost_reasons.most_common()),
            judge_failures=dict(self._judge_failures.most_common()),
            stored_rewarded=len(self._stored_rewards),
            new_rewarded=len(self._new_rewards),
            stored_reward=_average(self._stored_rewards),
            new_reward=_average(self._new_rewards),
            success_agreement=self._same_success / decided if decided else None,
        )

    def _add_episode(self, before: Episode, after: Episode) -> None:
        found = self._found
        found.episodes += 1
        self._stored_rewards += [] if before.reward is None else [before.reward]
        self._new_rewards += [] if after.reward is None else [after.reward]
        if isinstance(after.verdict, Unjudged):
            reason = after.verdict.reason
            self._judge_failures[reason] += 1
            found.judge_failure_examples.setdefault(reason, f"{after.id}: {after.verdict.detail}")
            found.unjudged += after.reward is None
        if before.reward is not None and after.reward is not None:
            same = has_same_rewards(before, after)
            found.equal, found.different = found.equal + same, found.different + (not same)
        elif before.reward is not None:
            found.lost.append(after.id)
            self._lost_reasons[_find_reason(after)] += 1
        elif after.reward is not None:
            found.gained.append(after.id)
        if before.is_success is not None and isinstance(after.verdict, Verdict) and after.is_success is not None:
            self._same_success += before.is_success == after.is_success
            if before.is_success != after.is_success:
                (found.to_success if after.is_success else found.to_failure).append(after.id)

    def _add_order(self, stored: Group, new: Group) -> None:
        found, swapped = self._found, False
        now = {one.owner: one for entries in list_compared(new, by_agent=self.by_agent) for one in entries}
        for entries in list_compared(stored, by_agent=self.by_agent):
            both = [(one, now[one.owner]) for one in entries if one.owner in now]
            for (one, one_now), (other, other_now) in combinations(both, 2):
                before, after = _compare(one, other), _compare(one_now, other_now)
                found.pairs += before != 0
                found.pairs_tied += before != 0 and after == 0
                found.pairs_reversed += before * after < 0
            swapped = swapped or _change_places([one.reward for one, _ in both], [one.reward for _, one in both])
        if swapped:
            found.swapped.append(new.key)


def has_same_rewards(one: Episode, other: Episode) -> bool:
    """Whether two verdicts on an episode give the same rewards, also to each agent; the rounding of their computation aside."""
    verdicts = [episode.verdict for episode in (one, other) if isinstance(episode.verdict, Verdict)]
    agents = {agent for verdict in verdicts for agent in verdict.rewards or {}}
    pairs = [(one.reward, other.reward), *((one.reward_of(agent), other.reward_of(agent)) for agent in agents)]
    return all(agree(np.array(pair, dtype=np.float64)) for pair in pairs)


def _compare(one: RewardedAgent, other: RewardedAgent) -> int:
    if agree(np.array([one.reward, other.reward], dtype=np.float64)):
        return 0
    return 1 if one.reward > other.reward else -1


def _change_places(stored: Sequence[float], new: Sequence[float]) -> bool:
    if len(stored) < 2 or min(stored) == max(stored) or min(new) == max(new):
        return False
    places = list(zip(stored, new, strict=True))
    return (max(stored), min(new)) in places and (min(stored), max(new)) in places


def _find_reason(episode: Episode) -> str:
    if isinstance(episode.verdict, Unjudged):
        return episode.verdict.reason
    return episode.failures[-1].reason if episode.failures else "no_verdict"


def _average(values: Sequence[float]) -> float | None:
    return math.fsum(values) / len(values) if values else None
