"""pdb for runs: it waits for the terminal, stops the clock at its prompt, and ends the run on quit."""

from __future__ import annotations

import asyncio
import bdb
import pdb
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from astuner.episodes.containment.endings import UserQuit
from astuner_tools.breakpoints.sessions import SESSIONS

_held_s: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""The total hold time (s) by event loop."""


class Debugger(pdb.Pdb):
    """One stop at a breakpoint, until the user lets the program continue."""

    def __init__(self, title: str, place: str | None, end_run: Callable[[], object] | None, ending: Callable[[], bool]) -> None:
        """`title` is shown at the first prompt; `end_run` runs on quit; `ending` returns whether the run is ending."""
        # The run handles Ctrl-C itself; pdb would replace its handler permanently.
        super().__init__(nosigint=True)
        self.prompt = "(astuner) "
        self.place = place
        self.thread = threading.current_thread()
        self._title, self._end_run, self._ending = title, end_run, ending

    def interaction(self, *arguments: Any, **keywords: Any) -> None:
        """Show the prompt as soon as no other thread has it."""
        if SESSIONS.take(self):
            # A live display may have redirected stdout until it was paused.
            self.stdout = sys.stdout if sys.stdout.isatty() else sys.stderr
            self.use_rawinput = self.stdout is sys.stdout
        if SESSIONS.hand_to(self):
            self.message(self._title)
        if self._ending():
            self.set_quit()
            return
        with stop_clock(), _allow_interrupt():
            super().interaction(*arguments, **keywords)

    def precmd(self, line: str) -> str:
        """Quit if the run was ended from another thread's prompt."""
        return "quit" if self._ending() else super().precmd(line)

    def set_continue(self) -> None:
        """Continue and release the terminal."""
        super().set_continue()
        self._release()

    def set_quit(self) -> None:
        """End the run, as Ctrl-C would."""
        super().set_quit()
        # First, so that the run's stop handler sees no open prompt.
        SESSIONS.give_back(self)
        if self._end_run is not None and not self._ending():
            self._end_run()
        self._release()

    def trace_dispatch(self, frame: FrameType, event: str, arg: Any) -> Any:
        """Trace the program; cancel it at the current line when the user has quit."""
        try:
            return super().trace_dispatch(frame, event, arg)
        except bdb.BdbQuit:
            if self._end_run is None:
                raise
            # Not caught by `except Exception` in the debugged code, and not counted as a failure.
            raise _make_ending() from None

    def _release(self) -> None:
        SESSIONS.give_back(self)
        # Another debugger of this thread may be stepping in a coroutine that continues later.
        waiting = SESSIONS.find_latest(self.thread)
        if isinstance(waiting, Debugger) and not self._ending():
            sys.settrace(waiting.trace_dispatch)


def _make_ending() -> BaseException:
    """Return the exception that ends this thread's code: a task is cancelled; the main thread outside tasks is interrupted."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        if threading.current_thread() is threading.main_thread():
            return KeyboardInterrupt()
    return UserQuit()


@contextmanager
def _allow_interrupt() -> Iterator[None]:
    """Let Ctrl-C interrupt a command at the prompt, not the run; signals reach the main thread only."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def stop_clock() -> Iterator[None]:
    """Hold the running event loop of this thread, if there is one, and then set its clock back, so that no time limit passes."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        loop = None
    began = time.monotonic()
    try:
        yield
    finally:
        # Only asyncio's own loops are known to call `time` for every timer.
        if isinstance(loop, asyncio.BaseEventLoop):
            _set_back(loop, time.monotonic() - began)


def _set_back(loop: asyncio.BaseEventLoop, seconds: float) -> None:
    if loop not in _held_s:
        _held_s[loop] = 0.0
        earlier = loop.time
        loop.time = lambda: earlier() - _held_s[loop]  # type: ignore[method-assign]  # replacing the clock is the point
    _held_s[loop] += seconds
