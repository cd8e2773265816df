"""One call of a judge's code: its answer, or why there is none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from astuner.contract.schema import Unjudged
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import describe_raised
from astuner.episodes.containment.surroundings import is_service_failure
from astuner.episodes.containment.tracebacks import locate_error
from astuner.episodes.containment.user_code import UserCode

UNAVAILABLE = "judge_unavailable"
"""The reason if what a judge asks failed, such as a service: it says nothing about the answer."""
PAUSES_S = (0.5, 2.0)
"""Before a judge whose service failed is asked again."""

Found = TypeVar("Found")


async def call_judge(
    ask: Callable[[], Awaitable[Found]],
    name: str,
    timeout_s: float | None,
    *,
    late: str,
    raised: str,
    asks_service: bool,
) -> Found | Unjudged:
    """Return what a judge's code returns; it is asked again, within the same time, while the service that it asks fails.

    `name` is that of the code in messages; `late` and `raised` begin the texts of a failure. Of a judge that `asks_service`, by
    its traits, the time limit says nothing about the answer.
    """
    began = time.monotonic()
    for pause_s in (*PAUSES_S, None):
        left_s = None if timeout_s is None else max(timeout_s - (time.monotonic() - began), 0.0)
        try:
            return await run_contained(ask, UserCode(name, is_shared=True), timeout_s=left_s)
        except CallTimeout as over:
            reason = UNAVAILABLE if asks_service else "judge_timeout"
            return Unjudged(reason=reason, detail=f"{late} within {timeout_s:g} s{over.place}")
        except Exception as error:  # noqa: BLE001 - the boundary for judges: their failure is data, never a score
            of_service = is_service_failure(error) or (asks_service and isinstance(error, TimeoutError))
            if not of_service or pause_s is None:
                at, reason = locate_error(error), UNAVAILABLE if of_service else "judge_error"
                detail = f"{raised}{describe_raised(error)}"
                return Unjudged(reason=reason, detail=detail, place=at.place, traceback=at.traceback)
        await asyncio.sleep(pause_s)
    raise AssertionError  # the last attempt returns
