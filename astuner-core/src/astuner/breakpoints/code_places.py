"""Whose code runs: the episode, the judge's group or the reader that a breakpoint names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from astuner.breakpoints.terminal import TERMINAL

_place: ContextVar[str | None] = ContextVar("astuner_place", default=None)


def current_place() -> str | None:
    """Return what was named by the innermost `during`, in this task or thread."""
    return _place.get()


@contextmanager
def name_place(place: str) -> Iterator[None]:
    """Name whose code runs inside; a debugger that was left there by stepping over its end gives the terminal back after it."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)
        TERMINAL.leave(place)
