"""The boundary for judges: each completed episode has a verdict or a reason for none, even if one fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from astuner.contract.plain_values import has_type, show_value
from astuner.contract.protocols import Judge
from astuner.contract.schema import Episode, Group, Unjudged, Verdict
from astuner.contract.user_values.verdicts import check_verdict
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import describe_raised
from astuner.episodes.containment.tracebacks import locate_error
from astuner.episodes.containment.user_code import UserCode
from astuner.episodes.judging.simple_judges import PartwiseJudge

OF_THE_BOUNDARY = frozenset({"judge_timeout", "judge_error", "bad_verdict"})
"""Reasons that are found here, and not by a judge."""

Found = TypeVar("Found")


async def collect_verdicts(judge: Judge, group: Group, timeout_s: float | None = None) -> Sequence[Verdict | Unjudged]:
    """Return one verdict per completed episode; a judge that raises, hangs or returns something else leaves them unjudged."""

    async def ask() -> list[Verdict | Unjudged]:
        return list(await (judge.judge_within(group, timeout_s) if isinstance(judge, PartwiseJudge) else judge.judge(group)))

    count = sum(episode.completed for episode in group.episodes)
    found = await _call_within(ask, UserCode(f"the judge, on {group.key},", is_shared=True), _choose_timeout(judge, timeout_s))
    if isinstance(found, Unjudged):
        return [found] * count
    if len(found) != count:
        return [Unjudged(reason="bad_verdict", detail=f"{len(found)} verdicts for {count} completed episodes")] * count
    return [_check_verdict(verdict) for verdict in found]


async def collect_observations(
    judge: Judge, episode: Episode, environment: Any, timeout_s: float | None = None
) -> Mapping[str, Any] | Unjudged:
    """Return a judge's observations of an episode, or why it has none if it raises or hangs."""

    async def look() -> Mapping[str, Any]:
        if isinstance(judge, PartwiseJudge):
            return dict(await judge.observe_within(episode, environment, timeout_s))
        return dict(await judge.observe(episode, environment))

    code = UserCode(f"the judge, observing {episode.id},", is_shared=True)
    return await _call_within(look, code, _choose_timeout(judge, timeout_s), "observe: ")


def _choose_timeout(judge: Judge, timeout_s: float | None) -> float | None:
    """Return the limit for the whole: none if each part has its own, since parts may run one after the other."""
    return None if isinstance(judge, PartwiseJudge) else timeout_s


async def _call_within(
    ask: Callable[[], Awaitable[Found]], code: UserCode, timeout_s: float | None, doing: str = ""
) -> Found | Unjudged:
    try:
        return await run_contained(ask, code, timeout_s=timeout_s)
    except CallTimeout as over:
        return Unjudged(reason="judge_timeout", detail=f"{doing}no answer within {timeout_s:g} s{over.place}")
    except Exception as error:  # noqa: BLE001 - the boundary for judges: their failure is data, never a score
        at = locate_error(error)
        detail = f"{doing}{describe_raised(error)}"
        return Unjudged(reason="judge_error", detail=detail, place=at.place, traceback=at.traceback)


def _check_verdict(verdict: object) -> Verdict | Unjudged:
    if has_type(verdict, Verdict):
        return check_verdict(verdict)
    if has_type(verdict, Unjudged):
        return verdict
    return Unjudged(reason="bad_verdict", detail=f"{show_value(verdict)} is not a verdict: a judge returns Verdict or Unjudged")
