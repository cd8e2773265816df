"""Work of an event loop of its own that another thread may end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from attrs import define, field

T = TypeVar("T")
_LOOK_S = 0.2
"""Between two looks at whether the one who waits was cancelled."""


class Run(Protocol):
    """Runs a coroutine to its end, as `asyncio.run` does."""

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        """Return its result."""
        ...


def beside_a_loop(work: Callable[[Run], T]) -> T:
    """Return what `work` gives, called with what runs its coroutines; also where an event loop is running already.

    Ctrl-C ends it in the middle of a request: otherwise it would wait for an LLM that is silent.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work(asyncio.run)
    waiting, runner = asyncio.current_task(), _Runner()
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work, runner)
        try:
            while not done.done():
                wait([done], _LOOK_S)
                # `asyncio.run` answers the first Ctrl-C by cancelling its task, which does not hear of it while it waits here.
                if waiting is not None and waiting.cancelling():
                    raise asyncio.CancelledError
            return done.result()
        except BaseException:
            done.cancel()
            runner.cancel()
            raise


@define(eq=False)
class _Runner:
    """Runs coroutines in one thread, until another thread cancels it."""

    _cancelled: bool = field(default=False, init=False)
    _cancel: Callable[[], object] | None = field(default=None, init=False)

    def __call__(self, work: Coroutine[Any, Any, T], /) -> T:
        return asyncio.run(self._watched(work))

    def cancel(self) -> None:
        """End what is running, and begin nothing more."""
        self._cancelled = True
        if self._cancel is not None:
            # The loop may have ended by itself.
            with suppress(RuntimeError):
                self._cancel()

    async def _watched(self, work: Coroutine[Any, Any, T]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        if task is None:
            raise AssertionError("a coroutine runs in a task")
        self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        # Looked at after the way to be cancelled is there, so that one of the two sides sees the other.
        if self._cancelled:
            work.close()
            raise asyncio.CancelledError
        return await work
