"""The order of an episode's requests, and threads for those that take long to read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, TypeVar

from attrs import define, field

T = TypeVar("T")


@define(eq=False)
class RequestOrder:
    """Admits the requests of one episode one after the other, in the order in which they came.

    What a request is worth does not depend on how long a thread takes: the records that it is compared with change only
    when it is through.
    """

    _pool: Executor | None
    _lock: asyncio.Lock = field(factory=asyncio.Lock, init=False)
    _work: asyncio.Future[Any] | None = field(default=None, init=False)
    """What the admitted request does in a thread, or has done."""
    _changes: list[Callable[[], None]] = field(factory=list, init=False)

    async def admit(self) -> None:
        """Wait until every earlier request is through. Ends with `release`."""
        await self._lock.acquire()

    def release(self) -> None:
        """Let the next request in; if this one was cancelled, once its thread is done."""
        if self._work is not None and not self._work.done():
            self._work.add_done_callback(lambda _: self.release())
            return
        self._work = None
        changes, self._changes = self._changes, []
        for change in changes:
            change()
        self._lock.release()

    async def run(self, work: Callable[[], T]) -> T:
        """Do a part of the admitted request in a thread, and return its result."""
        running = asyncio.get_running_loop().run_in_executor(self._pool, work)
        self._work = running
        # A thread cannot be cancelled.
        return await asyncio.shield(running)

    def change(self, change: Callable[[], None]) -> None:
        """Change the records that requests are compared with: now, or when the request that a thread works on is through."""
        if self._work is None:
            change()
        else:
            self._changes.append(change)
