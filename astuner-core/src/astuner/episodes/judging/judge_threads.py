"""Running a judge's blocking function off the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import Any

from astuner.episodes.containment.endings import UserQuit, make_exception
from astuner.episodes.containment.threads import start_thread
from astuner.episodes.containment.user_code import find_running_code


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
