"""What a debugger needs of a run: where it stops, how it ends the run, and no time limit meanwhile."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

from attrs import define, evolve, field

from astuner.breakpoints.selection import is_selected, load_debugger, note_first, read_tags

if TYPE_CHECKING:
    from astuner.contract.protocols import Control, RunInfo


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


PLACE: ContextVar[str | None] = ContextVar("astuner_place", default=None)
"""The code that is running: the episode, the judge's group or the reader, for the title of a breakpoint."""


@contextmanager
def name_place(place: str) -> Iterator[None]:
    """Name the code that runs inside the block; a debugger still open at its end releases the terminal."""
    token = PLACE.set(place)
    try:
        yield
    finally:
        PLACE.reset(token)
        TERMINAL.leave(place)


@define(eq=False)
class RunHandle:
    """A debugger's access to the run of this process, if there is one."""

    end: Callable[[], object] | None = None
    say: Callable[[str], object] | None = None
    ending: Callable[[], bool] = lambda: False


RUN = RunHandle()


@contextmanager
def connect_run(control: Control, end: Callable[[], object], say: Callable[[str], object]) -> Iterator[None]:
    """Let debuggers in this process end the run on quit, and report messages through `say`."""

    def report_prompt() -> None:
        if TERMINAL.is_in_use():
            say("a debugger is still at its prompt: press Enter there to leave it")

    RUN.end, RUN.say, RUN.ending = end, say, lambda: control.stop
    control.on_stop(report_prompt)
    try:
        yield
    finally:
        RUN.end, RUN.say, RUN.ending = None, None, lambda: False


TIME_LIMITS_OFF = (
    "breakpoints: rollout.episode_timeout_s, rollout.llm_timeout_s and the judge's time limit are off, so that none expires "
    "while you look around"
)


def remove_time_limits(run_info: RunInfo) -> RunInfo:
    """Return a run's info without the time limits of episodes and calls."""
    rollout = evolve(run_info.config.rollout, episode_timeout_s=None, llm_timeout_s=None)
    return evolve(run_info, config=evolve(run_info.config, rollout=rollout))


def expects_stops() -> bool:
    """Whether the run may stop in a debugger: breakpoints are selected, or a debugger is attached."""
    return bool(read_tags()) or find_debugpy() is not None


def reach(tag: str) -> Callable[[str, FrameType], None] | None:
    """Note that a tag is reached, and return what stops there; None if it is not selected."""
    if not is_selected(tag) or RUN.ending():
        return None
    note_first(tag)
    return load_debugger()


def find_debugpy() -> Any:
    """Return debugpy if a client, such as an editor, is connected to this process."""
    debugpy = sys.modules.get("debugpy")
    return debugpy if debugpy is not None and debugpy.is_client_connected() else None
