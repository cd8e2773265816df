"""Stopping at a breakpoint in whichever debugger is available."""

from __future__ import annotations

import multiprocessing
import sys
from types import FrameType
from typing import Any

from astuner.breakpoints.selection import note_first
from astuner.breakpoints.stopping import PLACE, RUN, find_debugpy


def stop(tag: str, frame: FrameType) -> None:
    """Stop at the next line of a frame."""
    debugpy = find_debugpy()
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
            (RUN.say or _warn_on_stderr)(f"astuner.breakpoint({tag!r}): {missing}")
        return
    from astuner_tools.breakpoints.debugger import Debugger

    place = PLACE.get()
    title = f"-- breakpoint {tag}{f': {place}' if place else ''}; c continues, q ends the run"
    Debugger(title, place, RUN.end, RUN.ending).set_trace(frame)


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
