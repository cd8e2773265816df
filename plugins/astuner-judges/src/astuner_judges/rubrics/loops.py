"""Waiting that can be interrupted, and asynchronous work for callers that are not."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any, TypeVar

T = TypeVar("T")

MOMENT_S = 0.1
"""After so long a wait looks whether it is still wanted."""
GIVING_UP_S = 5.0
"""Longest time for work to end that is not wanted any more."""


def in_a_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run in an event loop: of this thread, or, where one runs here already, of another thread, which is waited for.

    Some backbones make their judges while their loop runs. Where the wait is interrupted, the work is cancelled, and has ended
    before the caller goes on to close what it uses.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    done: Future[T] = Future()
    unwanted = threading.Event()

    def run() -> None:
        try:
            done.set_result(asyncio.run(_while_wanted(work, unwanted)))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            done.set_exception(error)

    # A daemon, so that a process that ends does not wait for what nobody wants.
    threading.Thread(target=run, name="astuner-rubrics", daemon=True).start()
    try:
        wait_until(lambda moment_s: bool(wait_for([done], moment_s).done))
    except BaseException:
        unwanted.set()
        wait_for([done], GIVING_UP_S)
        raise
    return done.result()


def wait_until(has_come: Callable[[float], bool]) -> None:
    """Call `has_come` with the seconds that it may take until it returns true.

    Raises `CancelledError` when the task that this is called in is cancelled meanwhile: so `asyncio.run` answers the first
    Ctrl-C, which would not be noticed in a wait that holds its loop up.
    """
    task = _current_task()
    cancelled = 0 if task is None else task.cancelling()
    while not has_come(MOMENT_S):
        if task is not None and task.cancelling() > cancelled:
            raise asyncio.CancelledError


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def _while_wanted(work: Coroutine[Any, Any, T], unwanted: threading.Event) -> T:
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait([task], timeout=MOMENT_S)
        if unwanted.is_set():
            task.cancel()
    return await task
