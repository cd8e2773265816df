"""The boundary for judges: each completed episode has a verdict or a reason for none, even if one fails."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import evolve

from astuner.contract.plain_values import has_type, show_value
from astuner.contract.protocols import Judge, JudgeTraits, read_traits
from astuner.contract.schema import Episode, Group, Unjudged, Verdict
from astuner.contract.user_values.verdicts import check_verdict
from astuner.episodes.judging.judge_calls import UNAVAILABLE, call_judge
from astuner.episodes.judging.simple_judges import PartwiseJudge

OF_THE_BOUNDARY = frozenset({"judge_timeout", "judge_error", "bad_verdict", "abstained", UNAVAILABLE})
"""Reasons that are found here, and not by a judge."""


async def collect_verdicts(judge: Judge, group: Group, timeout_s: float | None = None) -> Sequence[Verdict | Unjudged]:
    """Return one verdict per completed episode; a judge that raises, hangs or returns something else leaves them unjudged.

    One that compares no siblings, by its traits, is then asked about each alone: one answer on which it fails is one failure.
    """

    async def ask() -> list[Any]:
        given = judge.judge_within(group, timeout_s) if isinstance(judge, PartwiseJudge) else judge.judge(group)
        return list(await given if inspect.isawaitable(given) else given)

    completed = [episode for episode in group.episodes if episode.completed]
    traits, limit_s = read_traits(judge, JudgeTraits), _choose_timeout(judge, timeout_s)
    name, asks_service = f"the judge, on {group.key},", traits.asks_service
    found = await call_judge(ask, name, limit_s, late="no answer", raised="", asks_service=asks_service)
    if not isinstance(found, Unjudged) and len(found) != len(completed):
        found = Unjudged(reason="bad_verdict", detail=f"{len(found)} verdicts for {len(completed)} completed episodes")
    if not isinstance(found, Unjudged):
        return [_check_verdict(verdict) for verdict in found]
    if traits.compares_siblings or len(completed) < 2 or found.reason not in ("judge_error", "bad_verdict"):
        return [found] * len(completed)
    alone = [collect_verdicts(judge, evolve(group, episodes=(episode,)), timeout_s) for episode in completed]
    return [verdict for [verdict] in await asyncio.gather(*alone)]


async def collect_observations(
    judge: Judge, episode: Episode, environment: Any, timeout_s: float | None = None
) -> Mapping[str, Any] | Unjudged:
    """Return a judge's observations of an episode, or why it has none if it raises or hangs."""

    async def look() -> Mapping[str, Any]:
        if isinstance(judge, PartwiseJudge):
            return dict(await judge.observe_within(episode, environment, timeout_s))
        return dict(await judge.observe(episode, environment))

    name, limit_s = f"the judge, observing {episode.id},", _choose_timeout(judge, timeout_s)
    asks_service = read_traits(judge, JudgeTraits).asks_service
    return await call_judge(look, name, limit_s, late="observe: no answer", raised="observe: ", asks_service=asks_service)


def _choose_timeout(judge: Judge, timeout_s: float | None) -> float | None:
    """Return the limit for the whole: none if each part has its own, since parts may run one after the other."""
    return None if isinstance(judge, PartwiseJudge) else timeout_s


def _check_verdict(verdict: object) -> Verdict | Unjudged:
    if has_type(verdict, Verdict):
        return check_verdict(verdict)
    if has_type(verdict, Unjudged):
        return verdict
    if verdict is None:
        return Unjudged(reason="abstained", detail="it has no opinion (None)")
    return Unjudged(reason="bad_verdict", detail=f"{show_value(verdict)} is not a verdict: a judge returns Verdict or Unjudged")
