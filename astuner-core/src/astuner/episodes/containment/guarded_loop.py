"""An event loop that users' code shares with the run and cannot end."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import AsyncGeneratorType
from typing import Any, TypeVar

from astuner.episodes.containment.code_lines import format_file
from astuner.episodes.containment.endings import UserInterrupt, describe_raised
from astuner.episodes.containment.user_code import OwnedCoroutine, UserCode, find_running_code

T = TypeVar("T")

_log = logging.getLogger("asyncio")

GRACE_S = 5.0
"""For users' code to end once it is cancelled."""


class OwnedTask(asyncio.Task[T]):
    """A task that knows whose it is: users' code cannot cancel the run's."""

    def __init__(self, work: Any, *, code: UserCode | None, **options: Any) -> None:
        """Run a coroutine of some users' code, or of the run."""
        self.code = code
        super().__init__(work if code is None or isinstance(work, OwnedCoroutine) else OwnedCoroutine(work, code), **options)

    def cancel(self, msg: Any | None = None) -> bool:
        """Cancel; has no effect if other users' code asks for it, as with `for task in asyncio.all_tasks(): task.cancel()`."""
        asking = find_running_code()
        if asking is not None and not asking.may_cancel(self.code):
            return False
        return super().cancel(msg)


def guard_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Make the tasks of a loop `OwnedTask`s from now on, unless a library makes its own."""
    if loop.get_task_factory() is None:
        loop.set_task_factory(_make_task)  # type: ignore[arg-type]  # typeshed wants a task of what may also be a generator


def _make_task(
    loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], *, context: contextvars.Context | None = None, **options: Any
) -> OwnedTask[T]:
    return OwnedTask(work, code=find_running_code(context), loop=loop, context=context, **options)


class GuardedLoop(asyncio.SelectorEventLoop):
    """A loop in which users' code can neither end the run's tasks nor the loop, and whose end waits for no thread of theirs."""

    def __init__(self) -> None:
        """Make a loop."""
        super().__init__()
        self.hurries = False
        """Whether the user has ended the run at once: then no code gets time to end."""
        guard_tasks(self)
        self._helpers = ThreadPoolExecutor(thread_name_prefix="asyncio")
        self.set_default_executor(self._helpers)

    def run_forever(self) -> None:
        """Run until it is stopped, or until the user interrupts it."""
        try:
            super().run_forever()
        except UserInterrupt:
            self.hurries = True
            raise

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Log what no code handled; not what the user has interrupted, which fails in the middle of anything.

        Contexts that were left open are closed by the loop or by the garbage collector, in a task of theirs: that fails in
        libraries that hold a scope of the task that entered it, and its traceback would name no line of the user's.
        """
        if self.hurries:
            return
        generator, error = _find_generator(context), context.get("exception")
        if generator is None or error is None:
            super().call_exception_handler(context)
        else:
            _log.warning(_describe_left_open(generator, error))

    def stop(self) -> None:
        """Stop; has no effect if users' code asks for it."""
        if find_running_code() is None:
            super().stop()

    async def shutdown_default_executor(self, timeout: float | None = None) -> None:
        """Take no more work, and leave to itself what users' code still does in a thread."""
        self._helpers.shutdown(wait=False, cancel_futures=True)


def _find_generator(context: dict[str, Any]) -> AsyncGeneratorType[Any, Any] | None:
    """Return the asynchronous generator whose closing has failed; None if something else has."""
    generator = context.get("asyncgen")
    return generator if isinstance(generator, AsyncGeneratorType) else None


def _describe_left_open(generator: AsyncGeneratorType[Any, Any], error: BaseException) -> str:
    place = f"{format_file(generator.ag_code.co_filename)}:{generator.ag_code.co_firstlineno}"
    return (
        f"warning: the context {generator.__qualname__} ({place}) was left open, and "
        f"could not be closed in another task: {describe_raised(error)}. Use `async with`, in the task that enters it."
    )


def choose_grace_s() -> float:
    """Return how long users' code in this loop may take to end once it is cancelled."""
    loop = asyncio.get_running_loop()
    return 0.0 if isinstance(loop, GuardedLoop) and loop.hurries else GRACE_S


async def end_tasks_of_code() -> None:
    """Cancel what users' code has left running in this loop, and abandon what does not end."""
    here = asyncio.current_task()
    left = {task for task in asyncio.all_tasks() if isinstance(task, OwnedTask) and task.code is not None and task is not here}
    for task in left:
        task.cancel()
    if left:
        await asyncio.wait(left, timeout=choose_grace_s())
    await abandon(left)


async def abandon(tasks: set[OwnedTask[Any]]) -> None:
    """Let tasks of users' code end without running any more of it."""
    waiting = {task for task in tasks if not task.done()}
    for task in waiting:
        if task.code is not None:
            task.code.abandon()
    for task in waiting:
        task.cancel()
    if waiting:
        await asyncio.wait(waiting)
