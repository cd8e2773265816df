"""One request of a client, and the calls that answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from astuner.gateway.recording.choice_events import Delta, Done


class RunningCall(Protocol):
    """One call under way."""

    async def run(self) -> None:
        """Generate to the end, or until cancelled."""
        ...

    def abandon(self) -> None:
        """Record a call that was cancelled, also before its task ran."""
        ...


class Turn:
    """One request of a client: a call per choice, all of them under way."""

    def __init__(self, id_: str) -> None:
        """`id_` is unique to the response."""
        self.id = id_
        self.events: asyncio.Queue[Delta | Done | None] = asyncio.Queue()
        """What happens to the choices; None when the client is gone."""
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, lives: Iterable[RunningCall], over: Callable[[], None]) -> None:
        """Run the calls; `over` hears when all have ended."""
        for live in lives:
            run: Coroutine[Any, Any, None] = live.run()
            task = asyncio.create_task(run)
            task.add_done_callback(self._make_ender(live, over))
            self.tasks.append(task)

    async def cancel(self) -> None:
        """End what still runs, and wait for its records."""
        running = [task for task in self.tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    def _make_ender(self, live: RunningCall, over: Callable[[], None]) -> Callable[[asyncio.Task[None]], None]:
        def end(task: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step never runs its own handlers.
            live.abandon()
            if all(other.done() for other in self.tasks):
                over()

        return end
