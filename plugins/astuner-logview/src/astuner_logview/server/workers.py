"""Threads for functions that read files: one slow answer stops neither the others nor the end of the program."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")
Job = tuple[Callable[[], object], "asyncio.Future[object]", asyncio.AbstractEventLoop]


class Workers:
    """A few daemon threads. `concurrent.futures` waits for its threads when the program ends; Ctrl-C must not wait."""

    def __init__(self, count: int = 4) -> None:
        """Start `count` threads."""
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._count = count
        for number in range(count):
            threading.Thread(target=self._work, name=f"logview {number}", daemon=True).start()

    async def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns, or raise what it raises, in one of the threads."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._jobs.put((function, answer, loop))  # type: ignore[arg-type]  # the queue holds jobs of any type
        return await answer

    def close(self) -> None:
        """End the threads that are idle, and the others after their job."""
        for _ in range(self._count):
            self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            function, answer, loop = job
            # A client that has left does not need its answer.
            if answer.cancelled():
                continue
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
                _report(loop, _fail, answer, error)
            else:
                _report(loop, _finish, answer, result)
            del job, function, answer


def _report(loop: asyncio.AbstractEventLoop, settle: Callable[..., None], answer: asyncio.Future[object], value: object) -> None:
    # The loop is closed when the program ends.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(settle, answer, value)


def _finish(answer: asyncio.Future[object], value: object) -> None:
    if not answer.done():
        answer.set_result(value)


def _fail(answer: asyncio.Future[object], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
