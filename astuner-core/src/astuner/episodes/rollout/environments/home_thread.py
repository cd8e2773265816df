"""A thread in which one environment lives (`rollout.isolation: thread`), so that one that blocks does not delay others."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from astuner.episodes.containment.endings import is_requested, make_exception
from astuner.episodes.containment.guarded_loop import guard_tasks
from astuner.episodes.containment.threads import start_thread

T = TypeVar("T")


class HomeThread:
    """A thread with an event loop, for one episode. Something that blocks it forever is left running."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin with the loop alone; `start` makes one whose thread runs."""
        self._loop = loop
        self._calls: set[asyncio.Task[Any]] = set()

    @classmethod
    async def start(cls, name: str) -> HomeThread:
        """Start a thread with a loop."""
        home = cls(asyncio.new_event_loop())
        guard_tasks(home._loop)
        try:
            await start_thread(home._run_loop, name)
        except BaseException:
            home._loop.close()
            raise
        return home

    async def run(self, function: Callable[..., Awaitable[T]], /, *arguments: Any, **named: Any) -> T:
        """Await `function` in this thread's loop, from any other loop; cancelling cancels it at its next await."""
        future = asyncio.run_coroutine_threadsafe(self._call(function, arguments, named), self._loop)
        return await asyncio.wrap_future(future)

    async def end(self, close: Callable[[], Awaitable[object]], within_s: float) -> None:
        """Close what lives here once its last call is over, and end the thread; raises `TimeoutError` when that takes longer.

        Half of the time is for that call. If something blocks the thread, what lives here is still closed afterwards.
        """
        future = asyncio.wrap_future(asyncio.run_coroutine_threadsafe(self._end(close, within_s / 2), self._loop))
        done, _ = await asyncio.wait({future}, timeout=within_s)
        if not done:
            raise TimeoutError(f"not within {within_s:g} s")
        future.result()

    async def _call(self, function: Callable[..., Awaitable[T]], arguments: tuple[Any, ...], named: dict[str, Any]) -> T:
        task = asyncio.current_task()
        assert task is not None  # run_coroutine_threadsafe makes a task of every coroutine
        self._calls.add(task)
        try:
            return await _contain(function(*arguments, **named))
        finally:
            self._calls.discard(task)

    async def _end(self, close: Callable[[], Awaitable[object]], each_s: float) -> None:
        try:
            if self._calls:
                await asyncio.wait(self._calls, timeout=each_s)
            async with asyncio.timeout(each_s):
                await _contain(close())
        finally:
            # After this coroutine's own result is out.
            self._loop.call_soon(self._loop.stop)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            # What the environment left running, such as a heartbeat, ends with the loop.
            left = asyncio.all_tasks(self._loop)
            for task in left:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()


class ThreadProxy:
    """Represents an environment in its thread: its coroutine methods run there, other attributes are passed through."""

    def __init__(self, environment: Any, home: HomeThread) -> None:
        """Keep both."""
        self._environment, self._home = environment, home

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._environment, name)
        if inspect.iscoroutinefunction(inspect.unwrap(value) if callable(value) else value):
            return partial(self._home.run, value)
        return value


async def _contain(work: Awaitable[T]) -> T:
    """Await what an environment does; what it raises is an `Exception`, unless the run cancels it."""
    try:
        return await work
    except BaseException as error:
        if is_requested(error) or isinstance(error, Exception):
            raise
        # It would end this thread's loop, and whoever waits would wait for ever.
        raise make_exception(error) from error
