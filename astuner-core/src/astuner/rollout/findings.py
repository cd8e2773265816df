"""The boundary for judges: whatever one does, each completed episode has a verdict or the reason for none."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from astuner.builtin.judges import odd_numbers
from astuner.protocols import Judge
from astuner.schema import Group, Unjudged, Verdict


async def findings_of(judge: Judge, group: Group, timeout_s: float | None = None) -> Sequence[Verdict | Unjudged]:
    """Return one finding per completed episode; a judge that raises, hangs or answers something else leaves them unjudged."""
    count = sum(episode.completed for episode in group.episodes)
    try:
        found = list(await asyncio.wait_for(judge.judge(group), timeout_s))
    except TimeoutError as error:
        if timeout_s is None:
            return [_raised(error)] * count
        return [Unjudged(reason="judge_timeout", detail=f"no verdict within {timeout_s:g} s")] * count
    except Exception as error:  # noqa: BLE001 - the boundary for judges: their failure is data, never a score
        return [_raised(error)] * count
    if len(found) != count:
        return [Unjudged(reason="bad_verdict", detail=f"{len(found)} findings for {count} completed episodes")] * count
    return [_checked(finding) for finding in found]


def _raised(error: Exception) -> Unjudged:
    return Unjudged(reason="judge_error", detail=f"{type(error).__name__}: {error}")


def _checked(finding: object) -> Verdict | Unjudged:
    if not isinstance(finding, Verdict | Unjudged):
        return Unjudged(reason="bad_verdict", detail=f"{finding!r:.200} is no finding: a judge returns Verdict or Unjudged")
    if isinstance(finding, Verdict) and (odd := odd_numbers(finding)):
        return Unjudged(reason="bad_verdict", detail=f"{', '.join(map(repr, odd))}: rewards and components are finite numbers")
    return finding
