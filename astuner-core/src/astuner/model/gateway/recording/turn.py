"""One request of a client, and the calls that answer it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
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
        self.unanswered = False
        """Whether a choice ended without an answer, other than by a client that left its stream."""
        self._tasks: list[asyncio.Task[None]] = []
        self._held: RunningCall[Any] | None = None
        self._runner: asyncio.Task[Any] | None = None
        self._left: asyncio.Event | None = None
        """Set once the runner has left the call that is cancelled."""

    def start(self, calls: Sequence[RunningCall[Any]], over: Callable[[], None], *, streams: bool) -> None:
        """Run the calls, an only one that is not streamed as soon as `wait` is called; `over` is called when all have ended."""
        self._over = over
        if len(calls) == 1 and not streams:
            self._held = calls[0]
            return
        for call in calls:
            task = asyncio.create_task(call.run())
            task.add_done_callback(partial(self._end, call))
            self._tasks.append(task)

    async def wait(self) -> Delta | Done | None:
        """Return the next event."""
        if self._held is not None:
            # In the task that waits for the answer: one more would take more time.
            call, self._held = self._held, None
            await self._run(call)
        return await self.events.get()

    async def _run(self, call: RunningCall[Any]) -> None:
        self._runner = runner = asyncio.current_task()
        assert runner is not None
        try:
            await call.run()
        except asyncio.CancelledError:
            if self._left is None or runner.cancelling() > 1:
                raise
        finally:
            self._runner = None
            if self._left is not None:
                runner.uncancel()
                self._left.set()
            self._end(call)

    def leave(self) -> None:
        """Stop, because the client is gone."""
        self.events.put_nowait(None)
        self._cancel_runner()

    async def cancel(self) -> None:
        """Cancel the running calls and wait for their records."""
        if self._held is not None:
            self._end(self._held)
            self._held = None
        self._cancel_runner()
        if self._left is not None:
            await self._left.wait()
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    def _cancel_runner(self) -> None:
        if self._runner is not None and self._left is None:
            self._left = asyncio.Event()
            self._runner.cancel()

    def _end(self, call: RunningCall[Any], task: object = None) -> None:
        # A task that is cancelled before its first step never runs its own handlers.
        call.abandon()
        self.unanswered = self.unanswered or call.unanswered
        if all(task.done() for task in self._tasks):
            self._over()
