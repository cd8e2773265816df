"""Asynchronous work for callers that are not, and waits that Ctrl-C and cancellation interrupt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from attrs import define, field

T = TypeVar("T")

MOMENT_S = 0.1
"""Interval between checks whether a wait is still wanted."""
GIVING_UP_S = 5.0
"""Longest time for cancelled work to end."""


class Run(Protocol):
    """Runs a coroutine to its end, as `asyncio.run` does."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return its result."""


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine, also where an event loop is running already; see `call_with_runner`."""
    return call_with_runner(lambda run: run(work))


def call_with_runner(work: Callable[[Run], T]) -> T:
    """Return what `work` returns, called with a function that runs its coroutines.

    Without a running event loop, it is called in this thread. With one (some backbones make their judges and read their tasks in
    theirs), it is called in another thread, and this one waits. If the wait is interrupted, its coroutines are cancelled, and
    have ended before the caller closes what they use.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work(asyncio.run)
    done: Future[T] = Future()
    runner = _Runner()
    # Counted before the thread starts: a Ctrl-C right at the start counts too.
    cancelled = _count_cancellations()

    def call() -> None:
        try:
            done.set_result(work(runner))
        except BaseException as error:  # noqa: BLE001 - handed to the caller
            done.set_exception(error)

    # A daemon, so that a process that exits does not wait for cancelled work.
    threading.Thread(target=call, name="astuner-blocking", daemon=True).start()
    try:
        wait_until(lambda moment_s: bool(wait_for([done], moment_s).done), cancelled)
    except BaseException:
        runner.cancel()
        wait_for([done], GIVING_UP_S)
        raise
    return done.result()


def wait_until(has_come: Callable[[float], bool], cancelled: int | None = None) -> None:
    """Call `has_come`, with the seconds that it may take, until it returns true.

    Raises `CancelledError` when the calling task is cancelled more often than the `cancelled` times before the call: so
    `asyncio.run` answers the first Ctrl-C, which a wait that blocks its loop would otherwise miss.
    """
    before = _count_cancellations() if cancelled is None else cancelled
    while not has_come(MOMENT_S):
        if _count_cancellations() > before:
            raise asyncio.CancelledError


def _count_cancellations() -> int:
    """Return how often the cancellation of the current task was requested; 0 if there is no task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return 0
    return 0 if task is None else task.cancelling()


@define(eq=False)
class _Runner:
    """Runs coroutines in one thread, until another thread cancels it."""

    _cancelled: bool = field(default=False, init=False)
    _cancel: Callable[[], object] | None = field(default=None, init=False)

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        return asyncio.run(self._watch(work))

    def cancel(self) -> None:
        """Cancel what is running, and start nothing more."""
        self._cancelled = True
        if self._cancel is not None:
            # The loop may have ended already.
            with suppress(RuntimeError):
                self._cancel()

    async def _watch(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            raise AssertionError("a coroutine runs in a task")
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        # Checked only once cancelling is possible, so that one of the two sides sees the other.
        if self._cancelled:
            work.close()
            raise asyncio.CancelledError
        return await work
