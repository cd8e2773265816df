"""One request of a client, and the calls that answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from astuner.model.gateway.recording.call_seeds import Draw
    from astuner.model.gateway.recording.choice_events import Delta, Done
    from astuner.model.gateway.recording.running_call import RunningCall


class Turn:
    """One request of a client: a running call per choice."""

    def __init__(self, id_: str, draws: Sequence[Draw]) -> None:
        """`id_` is unique to the response; `draws` are the seeds of its prompts."""
        self.id, self.draws = id_, draws
        self.events: asyncio.Queue[Delta | Done | None] = asyncio.Queue()
        """Events of the choices; None when the client is gone."""
        self.tasks: list[asyncio.Task[None]] = []
        self.unanswered = False
        """Whether a choice ended without an answer, other than by a client that left its stream."""

    def start(self, calls: Iterable[RunningCall[Any]], over: Callable[[], None]) -> None:
        """Run the calls; `over` is called when all have ended."""
        for call in calls:
            run: Coroutine[Any, Any, None] = call.run()
            task = asyncio.create_task(run)
            task.add_done_callback(self._make_ender(call, over))
            self.tasks.append(task)

    async def cancel(self) -> None:
        """Cancel the running calls and wait for their records."""
        running = [task for task in self.tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    def _make_ender(self, call: RunningCall[Any], over: Callable[[], None]) -> Callable[[asyncio.Task[None]], None]:
        def end(task: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step never runs its own handlers.
            call.abandon()
            self.unanswered = self.unanswered or call.unanswered
            if all(other.done() for other in self.tasks):
                over()

        return end
