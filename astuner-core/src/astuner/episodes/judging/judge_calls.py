"""Calling a judge's code: contained, off the event loop if it blocks, and again while its service fails."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from astuner.contract.schema import Unjudged
from astuner.episodes.containment.contained_call import CallTimeout, run_contained
from astuner.episodes.containment.endings import UserQuit, describe_raised, make_exception
from astuner.episodes.containment.surroundings import is_service_failure
from astuner.episodes.containment.threads import start_thread
from astuner.episodes.containment.tracebacks import locate_error
from astuner.episodes.containment.user_code import UserCode, find_running_code

UNAVAILABLE = "judge_unavailable"
"""The reason if what a judge asks failed, such as a service: it says nothing about the answer."""
PAUSES_S = (0.5, 2.0)
"""Before a judge whose service failed is asked again."""

Found = TypeVar("Found")


async def call_judge(
    ask: Callable[[], Awaitable[Found]], name: str, timeout_s: float | None, *, late: str, raised: str, asks_service: bool
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


async def run_in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
    """Run a blocking function off the loop, in a separate daemon thread.

    The loop's executor is not for users' code: a few calls that never return would fill it, and exit waits for it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[Any] = loop.create_future()
    context = contextvars.copy_context()

    def settle(result: Any, error: BaseException | None) -> None:
        if done.done():
            return  # timed out or cancelled meanwhile
        if error is None:
            done.set_result(result)
        elif isinstance(error, UserQuit) or (isinstance(error, Exception) and not isinstance(error, StopIteration)):
            done.set_exception(error)
        else:
            # A future refuses StopIteration, and SystemExit in it would end the loop.
            wrapped = RuntimeError(f"{type(error).__name__}: {error}")
            wrapped.__cause__ = error
            done.set_exception(wrapped if isinstance(error, Exception) else make_exception(error))

    code = find_running_code()

    def work() -> None:
        result, error = None, None
        if code is not None:
            code.thread = threading.get_ident()
        try:
            result = context.run(function, *arguments)
        except BaseException as raised:  # noqa: BLE001 - handed to the caller
            error = raised
        if code is not None:
            code.thread = None
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile: nothing waits for the result
            loop.call_soon_threadsafe(settle, result, error)

    await start_thread(work, "astuner-judge")
    return await done
