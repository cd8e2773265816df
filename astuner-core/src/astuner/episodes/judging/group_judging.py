"""From judges to the verdicts of a group: the workflow's own reward first, then the judge; a failure is never a score."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from attrs import evolve

from astuner.contract.plain_values import LARGEST_REWARD, show_value
from astuner.contract.protocols import Judge
from astuner.contract.schema import Episode, Group, Unjudged, Verdict
from astuner.contract.user_values.verdicts import describe_range, read_reward
from astuner.episodes.judging.failures import OF_THE_BOUNDARY, collect_verdicts
from astuner.episodes.judging.simple_judges import JudgeAdapter, PartwiseJudge

SHARED = "*"
"""The key for every agent that a workflow's mapping of rewards does not name."""
GIVEN_NO_REWARD = frozenset({"bad_reward", "no_judge"})
"""Reasons that the workflow causes, not the judge."""


async def judge_group(
    group: Group, judge: Judge | None, *, timeout_s: float | None, failure_reward: float | None = None
) -> Group:
    """Return the group with a verdict, or the reason for none, on every completed episode.

    A judge that raises, hangs or returns something other than verdicts leaves its episodes unjudged; they get no other
    score than `failure_reward`, if the answer may have caused it. Episodes in which a detector of abnormal behaviour found
    something have their verdict, and no judge sees them.
    """
    decided = {e.id: e.verdict or _read_own_reward(e) for e in group.played if e.completed}
    if any(verdict is None for verdict in decided.values()):
        shown = evolve(group, episodes=tuple(e for e in group.played if not (e.completed and e.abnormal)), greedy=None)
        found = await _ask(shown, judge, timeout_s)
        completed = [episode for episode in shown.episodes if episode.completed]
        for episode, verdict in zip(completed, found, strict=True):
            worth = verdict.with_worth(failure_reward) if isinstance(verdict, Unjudged) else verdict
            decided[episode.id] = decided[episode.id] or worth
    return group.with_played(e.with_verdict(decided[e.id]) if decided.get(e.id) else e for e in group.played)  # type: ignore[arg-type]  # None is filtered by the condition


def _read_own_reward(episode: Episode) -> Verdict | Unjudged | None:
    output = episode.output
    if output is None or output.reward is None:
        return None
    given = output.reward
    numbers = (
        {name: read_reward(value) for name, value in given.items()}
        if isinstance(given, Mapping)
        else {SHARED: read_reward(given)}
    )
    rewards = {name: number for name, number in numbers.items() if number is not None}
    if not rewards or len(rewards) < len(numbers):
        expected = f"{describe_range(LARGEST_REWARD)}, or one per agent name, is needed"
        return Unjudged(reason="bad_reward", detail=f"the workflow gave the reward {show_value(given)}; {expected}")
    shared = rewards.pop(SHARED, sum(rewards.values()) / max(1, len(rewards)))
    return Verdict(shared, output.is_success, rewards=rewards if isinstance(given, Mapping) else None)


def find_absent_agents(group: Group) -> Iterator[str]:
    """Yield a text for each agent that a verdict of the group rewards and that made no call in its episode."""
    for episode in group.episodes:
        rewards = episode.verdict.rewards if isinstance(episode.verdict, Verdict) else None
        agents = dict.fromkeys(call.agent for call in episode.calls)
        for name in rewards or ():
            if name not in agents:
                there = ", ".join(map(repr, agents)) or "none"
                yield f"the reward of the agent {name!r} had no effect in an episode in which these made calls: {there}"


async def _ask(group: Group, judge: Judge | None, timeout_s: float | None) -> Sequence[Verdict | Unjudged]:
    if judge is None:
        unjudged = Unjudged(reason="no_judge", detail="the workflow gave no reward and no judge is configured (task_judge)")
        return [unjudged] * sum(episode.completed for episode in group.episodes)
    found = await collect_verdicts(judge, group, timeout_s)
    # One that judges each part on its own names what failed.
    return found if isinstance(judge, PartwiseJudge) else [_name_judge(judge, verdict) for verdict in found]


def _name_judge(judge: Judge, verdict: Verdict | Unjudged) -> Verdict | Unjudged:
    if not isinstance(verdict, Unjudged) or verdict.reason not in OF_THE_BOUNDARY:
        return verdict
    name = type(judge.inner if isinstance(judge, JudgeAdapter) else judge).__qualname__
    return evolve(verdict, detail=f"judge {name}: {verdict.detail}")
