"""The code that is running: the episode, the judge's group or the reader, for the title of a breakpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from astuner.breakpoints.terminal import TERMINAL

_place: ContextVar[str | None] = ContextVar("astuner_place", default=None)


def current_place() -> str | None:
    """Return the name set by the innermost `name_place`, in this task or thread."""
    return _place.get()


@contextmanager
def name_place(place: str) -> Iterator[None]:
    """Name the code that runs inside the block; a debugger still open at its end releases the terminal."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)
        TERMINAL.leave(place)
