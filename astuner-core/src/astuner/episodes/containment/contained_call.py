"""Awaiting users' code so that it cannot do more than fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar, cast

from attrs import frozen

from astuner.episodes.containment.endings import UserInterrupt, UserQuit, make_exception
from astuner.episodes.containment.guarded_loop import OwnedTask, choose_grace_s
from astuner.episodes.containment.user_code import OwnedCoroutine, UserCode

T = TypeVar("T")


class CallTimeout(Exception):
    """The time limit of a call passed."""

    def __init__(self, line: str | None) -> None:
        """`line` is where the code was, as in `agent.py:12`."""
        self.line = line
        super().__init__(line)

    @property
    def place(self) -> str:
        """Where the code was, as the end of a sentence; empty if it is not known."""
        return "" if self.line is None else f"; it was at {self.line}"


@frozen
class Outcome(Generic[T]):
    """What users' code returned or raised."""

    value: T | None = None
    error: BaseException | None = None

    def unwrap(self) -> T:
        """Return the value, or raise the error, as an `Exception` unless it is the user's."""
        if isinstance(self.error, UserQuit):
            raise self.error
        if self.error is not None:
            raise make_exception(self.error)
        return cast("T", self.value)


async def capture(begin: Callable[[], Awaitable[T]]) -> Outcome[T]:
    """Return what users' code does, whatever it raises."""
    try:
        return Outcome(value=await begin())
    except UserInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - the boundary for users' code
        return Outcome(error=error)


def read_outcome(task: asyncio.Task[Outcome[T]]) -> Outcome[T]:
    """Return the outcome of a task of `capture` that is done."""
    if task.cancelled():
        # The code has cancelled its own task, and awaited nothing afterwards.
        return Outcome(error=asyncio.CancelledError())
    if isinstance(task.exception(), UserInterrupt):
        # It has left the loop already, and would leave it again.
        return Outcome(error=UserQuit())
    return task.result() or Outcome(error=asyncio.CancelledError())


async def run_contained(begin: Callable[[], Awaitable[T]], code: UserCode, *, timeout_s: float | None = None) -> T:
    """Return what users' code does; whatever it raises is an `Exception`.

    When the time is over, or the caller is cancelled, it is cancelled too, and abandoned if it does not end within a grace.
    Raises `CallTimeout`.
    """
    code.work = capture(begin)
    task: OwnedTask[Outcome[T]] = OwnedTask(
        OwnedCoroutine(code.work, code), code=code, loop=asyncio.get_running_loop(), context=code.make_context(), name=code.name
    )
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    except asyncio.CancelledError:
        await _end(task, code)
        raise
    if task.done():
        return read_outcome(task).unwrap()
    line = code.find_line()
    await _end(task, code)
    raise CallTimeout(line)


async def _end(task: OwnedTask[Any], code: UserCode) -> None:
    grace_s = choose_grace_s()
    task.cancel()
    try:
        await asyncio.wait({task}, timeout=grace_s)
    finally:
        if not task.done():
            line = code.find_line()
            code.abandon()
            for own in asyncio.all_tasks():
                if isinstance(own, OwnedTask) and own.code is not None and own.code.is_part_of(code):
                    own.cancel()
            place = "" if line is None else f" at {line}"
            why = (
                "code that catches CancelledError has to end or to raise it again"
                if code.thread is None
                else "its thread is left behind, since a thread that is blocked cannot be ended"
            )
            if choose_grace_s() > 0:
                code.report(code, f"{code.name} was cancelled, did not end within {grace_s:g} s and was abandoned{place}: {why}")
    _forget_error(task)


def _forget_error(task: asyncio.Task[Any]) -> None:
    """Keep asyncio from reporting an error that is not looked at."""
    if task.done() and not task.cancelled():
        task.exception()
