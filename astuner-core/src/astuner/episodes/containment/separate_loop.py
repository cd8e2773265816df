"""Users' code in an event loop of its own, in a thread or a process that it may block."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from astuner.episodes.containment.contained_call import Outcome, capture, read_outcome
from astuner.episodes.containment.guarded_loop import OwnedTask, end_tasks_of_code, guard_tasks
from astuner.episodes.containment.user_code import UserCode, make_context_of_run

T = TypeVar("T")


def run_in_separate_loop(
    begin: Callable[[], Awaitable[T]],
    code: UserCode,
    deliver: Callable[[Outcome[T]], object],
    started: Callable[[asyncio.AbstractEventLoop, asyncio.Task[Any]], object] = lambda loop, task: None,
) -> None:
    """Run a coroutine in a new loop of this thread, whatever it does, and deliver the outcome before the loop is closed.

    Closing the loop may take long: what the code has left running is ended there.
    """
    delivered, context = False, code.make_context()

    async def run() -> None:
        nonlocal delivered
        code.work = capture(begin)
        task: OwnedTask[Outcome[T]] = OwnedTask(code.work, code=code, loop=asyncio.get_running_loop(), context=context)
        started(asyncio.get_running_loop(), task)
        await asyncio.wait({task})
        deliver(read_outcome(task))
        delivered = True
        await end_tasks_of_code()

    def play() -> None:
        with asyncio.Runner(loop_factory=_make_loop) as runner:
            runner.run(run())

    try:
        make_context_of_run().run(play)
    except BaseException as error:  # noqa: BLE001 - users' code can stop its own loop
        if not delivered:
            deliver(Outcome(error=error))


def _make_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    guard_tasks(loop)
    return loop
