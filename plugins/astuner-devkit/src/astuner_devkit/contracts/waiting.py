"""An event loop and waits with time limits: a component that hangs fails its rule, not the test run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_CLEANING_S = 5.0
"""Time limit for cancelled tasks to end."""


async def wait_within(seconds: float, what: str, awaitable: Awaitable[T]) -> T:
    """Return the result; raise `AssertionError` if it takes longer. The work is then cancelled, but not awaited."""
    task = asyncio.ensure_future(awaitable)
    done, _ = await asyncio.wait({task}, timeout=seconds)
    if not done:
        task.cancel()
        raise AssertionError(f"{what} did not end within {seconds:g} s")
    return task.result()


def run_bounded(play: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine as `asyncio.run` does, without waiting forever for tasks and threads that do not end."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(play())
    finally:
        # Ignore errors of tasks that a rule gave up on.
        loop.set_exception_handler(lambda loop, context: None)
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=_CLEANING_S))
        loop.run_until_complete(asyncio.wait({loop.create_task(loop.shutdown_asyncgens())}, timeout=_CLEANING_S))
        loop.close()
