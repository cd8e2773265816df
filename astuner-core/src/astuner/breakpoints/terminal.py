"""What shares this process's terminal with a debugger: live displays, which pause while a debugger has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field


class Display(Protocol):
    """Something that draws on the terminal at any time."""

    def pause(self) -> None:
        """Draw nothing until `resume`."""

    def resume(self) -> None:
        """Draw again, including what arrived meanwhile."""


@define(eq=False)
class Terminal:
    """One per process, since there is one terminal. A debugger replaces the functions."""

    displays: list[Display] = field(factory=list)
    leave: Callable[[str], object] = lambda place: None
    """End the prompts of a finished place."""
    is_in_use: Callable[[], bool] = lambda: False
    """Return whether a debugger has the terminal."""


TERMINAL = Terminal()
