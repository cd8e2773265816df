"""Users' synchronous code, in a thread or a process that it may block."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from astuner.episodes.containment.contained_call import Outcome
from astuner.episodes.containment.separate_loop import run_in_separate_loop
from astuner.episodes.containment.user_code import UserCode

T = TypeVar("T")


def run_blocking(
    begin: Callable[[], T | Awaitable[T]],
    code: UserCode,
    deliver: Callable[[Outcome[T]], object],
    started: Callable[..., object] = lambda loop, task: None,
) -> None:
    """Call a function in this thread, whatever it does, and deliver the outcome.

    No event loop runs here, so the function may run one: `asyncio.run(...)`. An awaitable that it returns is awaited in a new
    loop, as in `run_in_separate_loop`.
    """
    try:
        found: Any = code.make_context().run(begin)
    except BaseException as error:  # noqa: BLE001 - the boundary for users' code
        deliver(Outcome(error=error))
        return
    if not inspect.isawaitable(found):
        deliver(Outcome(value=found))
        return

    async def wait() -> T:
        answer: T = await found
        return answer

    run_in_separate_loop(wait, code, deliver, started)
