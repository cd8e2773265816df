"""How the new verdicts of a split differ from the stored ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import numpy as np
from attrs import define, field, frozen

from astuner.contract.schema import Episode, Group, Unjudged, Verdict
from astuner.episodes.judging.advantages import RewardedAgent, has_no_signal, list_compared
from astuner.episodes.judging.estimators import agree


@frozen(kw_only=True)
class Agreement:
    """The differences, counted and named; shares and means are None if there is nothing to count."""

    episodes: int
    groups: int
    agreement: float | None
    """The share of equal rewards, among the episodes that have one or had one."""
    equal: int
    different: int
    gained: Sequence[str]
    """Episodes with a reward now that had none."""
    lost: Sequence[str]
    """Episodes without a reward now that had one."""
    lost_reasons: dict[str, int]
    judge_failures: dict[str, int]
    """Episodes that the judge failed on, by reason; those with a reward by `rollout.failure_rewards` too."""
    judge_failure_examples: dict[str, str]
    """The first episode of each reason, and what happened in it, with file and line if code raised."""
    unjudged: int
    """Completed episodes without a reward."""
    stored_rewarded: int
    """Episodes that had a reward."""
    new_rewarded: int
    stored_reward: float | None
    """The mean over the episodes that had a reward."""
    new_reward: float | None
    success_agreement: float | None
    """The share of equal successes, among the episodes whose success is known by both."""
    to_failure: Sequence[str]
    """Episodes that were a success."""
    to_success: Sequence[str]
    """Episodes that were none."""
    pairs: int
    """Pairs of siblings with different stored rewards that both have a new one."""
    pairs_reversed: int
    """Those that are now in the other order."""
    pairs_tied: int
    """Those whose rewards are now equal."""
    swapped: Sequence[str]
    """Groups in which an episode with the highest reward now has the lowest, and one with the lowest the highest."""
    signal_gained: Sequence[str]
    """Groups whose rewards were all equal, and are not any more."""
    signal_lost: Sequence[str]
    """Groups whose rewards are all equal now."""


@define(eq=False)
class AgreementCount:
    """Compares group after group."""

    by_agent: bool
    """Whether each agent of an episode is compared with the same agent of its siblings."""
    episodes: int = 0
    groups: int = 0
    equal: int = 0
    different: int = 0
    pairs: int = 0
    pairs_reversed: int = 0
    pairs_tied: int = 0
    gained: list[str] = field(factory=list)
    lost: list[str] = field(factory=list)
    lost_reasons: Counter[str] = field(factory=Counter)
    judge_failures: Counter[str] = field(factory=Counter)
    examples: dict[str, str] = field(factory=dict)
    unjudged: int = 0
    same_success: int = 0
    to_failure: list[str] = field(factory=list)
    to_success: list[str] = field(factory=list)
    swapped: list[str] = field(factory=list)
    signal_gained: list[str] = field(factory=list)
    signal_lost: list[str] = field(factory=list)
    _stored_rewards: list[float] = field(factory=list)
    _new_rewards: list[float] = field(factory=list)

    def add(self, stored: Group, new: Group) -> None:
        """Compare a group with the same one with new verdicts."""
        self.groups += 1
        for before, after in zip(stored.episodes, new.episodes, strict=True):
            self._add_episode(before, after)
        self._add_order(stored, new)
        was_dead, is_dead = (has_no_signal(group, by_agent=self.by_agent) for group in (stored, new))
        if was_dead != is_dead:
            (self.signal_lost if is_dead else self.signal_gained).append(new.key)

    def sum_up(self) -> Agreement:
        """Return what was found so far."""
        rewarded = self.equal + self.different + len(self.gained) + len(self.lost)
        decided = self.same_success + len(self.to_failure) + len(self.to_success)
        return Agreement(
            episodes=self.episodes,
            groups=self.groups,
            agreement=self.equal / rewarded if rewarded else None,
            equal=self.equal,
            different=self.different,
            gained=self.gained,
            lost=self.lost,
            lost_reasons=dict(self.lost_reasons.most_common()),
            judge_failures=dict(self.judge_failures.most_common()),
            judge_failure_examples=self.examples,
            unjudged=self.unjudged,
            stored_rewarded=len(self._stored_rewards),
            new_rewarded=len(self._new_rewards),
            stored_reward=_average(self._stored_rewards),
            new_reward=_average(self._new_rewards),
            success_agreement=self.same_success / decided if decided else None,
            to_failure=self.to_failure,
            to_success=self.to_success,
            pairs=self.pairs,
            pairs_reversed=self.pairs_reversed,
            pairs_tied=self.pairs_tied,
            swapped=self.swapped,
            signal_gained=self.signal_gained,
            signal_lost=self.signal_lost,
        )

    def _add_episode(self, before: Episode, after: Episode) -> None:
        self.episodes += 1
        self._stored_rewards += [] if before.reward is None else [before.reward]
        self._new_rewards += [] if after.reward is None else [after.reward]
        if isinstance(after.verdict, Unjudged):
            reason = after.verdict.reason
            self.judge_failures[reason] += 1
            self.examples.setdefault(reason, f"{after.id}: {after.verdict.detail}")
            self.unjudged += after.reward is None
        if before.reward is not None and after.reward is not None:
            same = has_same_rewards(before, after)
            self.equal, self.different = self.equal + same, self.different + (not same)
        elif before.reward is not None:
            self.lost.append(after.id)
            self.lost_reasons[_find_reason(after)] += 1
        elif after.reward is not None:
            self.gained.append(after.id)
        if before.is_success is not None and after.is_success is not None:
            self.same_success += before.is_success == after.is_success
            if before.is_success != after.is_success:
                (self.to_success if after.is_success else self.to_failure).append(after.id)

    def _add_order(self, stored: Group, new: Group) -> None:
        swapped = False
        now = {one.owner: one for entries in list_compared(new, by_agent=self.by_agent) for one in entries}
        for entries in list_compared(stored, by_agent=self.by_agent):
            both = [(one, now[one.owner]) for one in entries if one.owner in now]
            for (one, one_now), (other, other_now) in combinations(both, 2):
                before, after = _compare(one, other), _compare(one_now, other_now)
                self.pairs += before != 0
                self.pairs_tied += before != 0 and after == 0
                self.pairs_reversed += before * after < 0
            swapped = swapped or _change_places([one.reward for one, _ in both], [one.reward for _, one in both])
        if swapped:
            self.swapped.append(new.key)


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
