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
        self._held: tuple[RunningCall[Any], Callable[[], None]] | None = None
        self._runner: asyncio.Task[Any] | None = None
        self._stopped: asyncio.Event | None = None
        """Set once the runner has left the call that was cancelled."""

    def hold(self, call: RunningCall[Any], over: Callable[[], None]) -> None:
        """Keep the only call of a turn for `run`; `over` is called when it has ended."""
        self._held = call, over

    async def run(self) -> None:
        """Run the call that is held in the task that waits for its answer, as a task more takes time; without one, return."""
        if self._held is None:
            return
        (call, over), self._held = self._held, None
        self._runner = runner = asyncio.current_task()
        assert runner is not None
        try:
            await call.run()
        except asyncio.CancelledError:
            if self._stopped is None or runner.cancelling() > 1:
                raise
        finally:
            self._runner = None
            if self._stopped is not None:
                runner.uncancel()
                self._stopped.set()
            self.unanswered = call.unanswered
            over()

    def leave(self) -> None:
        """Stop, because the client is gone."""
        self.events.put_nowait(None)
        self._stop()

    def start(self, calls: Iterable[RunningCall[Any]], over: Callable[[], None]) -> None:
        """Run the calls in tasks; `over` is called when all have ended."""
        for call in calls:
            run: Coroutine[Any, Any, None] = call.run()
            task = asyncio.create_task(run)
            task.add_done_callback(self._make_ender(call, over))
            self.tasks.append(task)

    async def cancel(self) -> None:
        """Cancel the running calls and wait for their records."""
        if self._held is not None:
            (call, over), self._held = self._held, None
            call.abandon()
            over()
        self._stop()
        if self._stopped is not None:
            await self._stopped.wait()
        running = [task for task in self.tasks if not task.done()]
        for task in running:
            task.cancel()
        if running:
            await asyncio.gather(*running, return_exceptions=True)

    def _stop(self) -> None:
        if self._runner is not None and self._stopped is None:
            self._stopped = asyncio.Event()
            self._runner.cancel()

    def _make_ender(self, call: RunningCall[Any], over: Callable[[], None]) -> Callable[[asyncio.Task[None]], None]:
        def end(task: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step never runs its own handlers.
            call.abandon()
            self.unanswered = self.unanswered or call.unanswered
            if all(other.done() for other in self.tasks):
                over()

        return end
