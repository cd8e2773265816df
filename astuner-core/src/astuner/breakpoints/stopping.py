"""Stopping at a breakpoint in whichever debugger is available."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

from attrs import define, evolve

from astuner.breakpoints.selection import is_selected, note_first, read_tags
from astuner.breakpoints.terminal import TERMINAL

if TYPE_CHECKING:
    from astuner.contract.protocols import Control, RunInfo


_place: ContextVar[str | None] = ContextVar("astuner_place", default=None)
"""The code that is running: the episode, the judge's group or the reader, for the title of a breakpoint."""


@contextmanager
def name_place(place: str) -> Iterator[None]:
    """Name the code that runs inside the block; a debugger still open at its end releases the terminal."""
    token = _place.set(place)
    try:
        yield
    finally:
        _place.reset(token)
        TERMINAL.leave(place)


@define(eq=False)
class _RunHandle:
    """A debugger's access to the run of this process, if there is one."""

    end: Callable[[], object] | None = None
    say: Callable[[str], object] | None = None
    ending: Callable[[], bool] = lambda: False


_run = _RunHandle()


@contextmanager
def connect_run(control: Control, end: Callable[[], object], say: Callable[[str], object]) -> Iterator[None]:
    """Let debuggers in this process end the run on quit, and report messages through `say`."""

    def report_prompt() -> None:
        if TERMINAL.in_use:
            say("a debugger is still at its prompt: press Enter there to leave it")

    _run.end, _run.say, _run.ending = end, say, lambda: control.stop
    control.on_stop(report_prompt)
    try:
        yield
    finally:
        _run.end, _run.say, _run.ending = None, None, lambda: False


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
    return bool(read_tags()) or _find_debugpy() is not None


def stop(tag: str, frame: FrameType) -> None:
    """Stop at the next line of a frame, if the tag is selected."""
    if not is_selected(tag) or _run.ending():
        return
    note_first(tag)
    debugpy = _find_debugpy()
    if debugpy is not None:
        _stop_in_debugpy(debugpy, frame)
        return
    ray = _find_worker_ray()
    if ray is not None:
        ray.util.pdb.set_trace()
        return
    missing = _explain_no_terminal()
    if missing is not None:
        # The space keeps it distinct from tags.
        if note_first("no terminal"):
            (_run.say or _warn_on_stderr)(f"astuner.breakpoint({tag!r}): {missing}")
        return
    from astuner.breakpoints.debugger import Debugger

    place = _place.get()
    title = f"-- breakpoint {tag}{f': {place}' if place else ''}; c continues, q ends the run"
    Debugger(title, place, _run.end, _run.ending).set_trace(frame)


def _find_debugpy() -> Any:
    """Return debugpy if a client, such as an editor, is connected to this process."""
    debugpy = sys.modules.get("debugpy")
    return debugpy if debugpy is not None and debugpy.is_client_connected() else None


def _stop_in_debugpy(debugpy: Any, frame: FrameType) -> None:
    pydevd = sys.modules.get("pydevd")
    if pydevd is None:
        debugpy.breakpoint()
        return
    # Like debugpy.breakpoint(), but in the caller's frame.
    pydevd.settrace(suspend=True, trace_only_current_thread=True, patch_multiprocessing=False, stop_at_frame=frame)


def _find_worker_ray() -> Any:
    """Return Ray in one of its worker processes; a driver has its own terminal."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return None
    return ray if ray.get_runtime_context().worker.mode == ray.WORKER_MODE else None


def _explain_no_terminal() -> str | None:
    """Return why there is no usable terminal, or None."""
    if multiprocessing.parent_process() is not None:
        return (
            "this process has no terminal, so it continues without stopping. Set rollout.isolation to async or thread, or attach "
            "debugpy, which follows child processes"
        )
    streams = (sys.stdin, sys.stdout, sys.stderr)
    typed, *shown = (stream is not None and not stream.closed and stream.isatty() for stream in streams)
    if typed and any(shown):
        return None
    return "there is no terminal to stop at, so the run continues. Start it from one, or attach debugpy (see docs/debugging.md)"


def _warn_on_stderr(text: str) -> None:
    print(f"warning: {text}", file=sys.stderr, flush=True)
