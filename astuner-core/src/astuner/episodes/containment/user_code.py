"""Users' code that runs for the run, such as the workflow of an episode, and coroutines that end when it is abandoned."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from attrs import define, field

from astuner.episodes.containment.code_lines import find_line_of_coroutine, find_line_of_thread
from astuner.episodes.containment.endings import UserInterrupt, make_exception

T = TypeVar("T")

_running: contextvars.ContextVar[UserCode | None] = contextvars.ContextVar("astuner_user_code", default=None)


@define(eq=False)
class UserCode:
    """What runs, in whatever tasks it makes."""

    name: str
    """In messages, as in `the workflow of episode train/1/t/0`."""
    report: Callable[[UserCode, str], None] = lambda code, text: None
    """Gets a message if the code does not end when it is cancelled."""
    parent: UserCode | None = None
    """What it is part of: the code of its episode, or the code that called it."""
    is_shared: bool = False
    """Whether it serves several episodes, as a judge does, so that it may cancel tasks of other users' code."""
    work: Any = field(default=None, init=False)
    """Its first coroutine."""
    thread: int | None = field(default=None, init=False)
    """The thread that it runs in, if it has one of its own."""
    _is_abandoned: bool = field(default=False, init=False)

    @property
    def is_abandoned(self) -> bool:
        """Whether none of it is to run any more."""
        return self._is_abandoned or (self.parent is not None and self.parent.is_abandoned)

    def abandon(self) -> None:
        """Let none of it run any more: each of its tasks ends when it is next continued or cancelled."""
        self._is_abandoned = True

    def may_cancel(self, other: UserCode | None) -> bool:
        """Whether it may cancel tasks of the other; None is the run itself."""
        return other is not None and (self.is_shared or self.root is other.root)

    @property
    def root(self) -> UserCode:
        """The outermost code that it is part of."""
        return self if self.parent is None else self.parent.root

    def is_part_of(self, other: UserCode) -> bool:
        """Whether it is the other code, or was called by it."""
        return self is other or (self.parent is not None and self.parent.is_part_of(other))

    def find_line(self) -> str | None:
        """Return the line at which it is."""
        if self.thread is not None and (line := find_line_of_thread(self.thread)) is not None:
            return line
        return find_line_of_coroutine(self.work)

    def make_context(self) -> contextvars.Context:
        """Return a copy of the current context in which this code runs."""
        around = find_running_code()
        if self.parent is None and around is not self:
            self.parent = around
        context = contextvars.copy_context()
        context.run(_running.set, self)
        return context


def make_context_of_run() -> contextvars.Context:
    """Return a copy of the current context in which no users' code runs."""
    context = contextvars.copy_context()
    context.run(_running.set, None)
    return context


def find_running_code(context: contextvars.Context | None = None) -> UserCode | None:
    """Return the users' code that runs in a context, the current one by default; None for the run's own."""
    return _running.get() if context is None else context.get(_running)


class OwnedCoroutine(Coroutine[Any, Any, T]):
    """A coroutine of users' code that ends when the code is abandoned, whatever it catches.

    `SystemExit` and `KeyboardInterrupt` would end the event loop if they left a task, so they leave it as a `CodeEnded`.
    """

    def __init__(self, work: Coroutine[Any, Any, T], code: UserCode) -> None:
        """Hold a coroutine of this code."""
        self.work, self.code = work, code
        self.steps = 0
        """How often it was continued."""

    def __getattr__(self, name: str) -> Any:
        # Tools that show where a task is read the coroutine's attributes.
        return getattr(self.work, name)

    def send(self, value: Any) -> Any:
        """Continue."""
        if self.code.is_abandoned:
            self._drop()
        return self._step(self.work.send, value)

    def throw(self, *error: Any) -> Any:
        """Raise an error where it waits."""
        if self.code.is_abandoned:
            self._drop()
        return self._step(self.work.throw, *error)

    def close(self) -> None:
        """End it."""
        self.work.close()

    def __await__(self) -> Any:
        """Run to the end."""
        return self.work.__await__()

    def _step(self, resume: Callable[..., Any], *arguments: Any) -> Any:
        self.steps += 1
        try:
            return resume(*arguments)
        except UserInterrupt:
            raise
        except (SystemExit, KeyboardInterrupt) as error:
            raise make_exception(error) from error

    def _drop(self) -> NoReturn:
        # It may catch GeneratorExit too; then it stays as it is, and is never continued.
        with suppress(BaseException):
            self.work.close()
        raise StopIteration(None)
