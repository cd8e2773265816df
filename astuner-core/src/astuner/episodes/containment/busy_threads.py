"""Threads of users' code for which Python would wait at its end."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from astuner.episodes.containment.code_lines import find_line_of_thread
from astuner.episodes.containment.current_frames import read_current_frames

MOST_NAMED = 5


def describe_threads(known: set[threading.Thread]) -> Sequence[str]:
    """Return a message about threads that would keep this process from ending; none without such threads."""
    busy = [thread for thread in find_busy_threads() if thread not in known]
    if not busy:
        return ()
    named = [f"{thread.name}{f' at {line}' if (line := _find_line(thread)) else ''}" for thread in busy[:MOST_NAMED]]
    more = f" and {len(busy) - MOST_NAMED} more" if len(busy) > MOST_NAMED else ""
    return (f"users' code has left {len(busy)} threads running, which the end of the run ends: {', '.join(named)}{more}",)


def find_busy_threads() -> list[threading.Thread]:
    """Return the threads for which Python would wait at its end and which do something: idle ones of pools end by themselves."""
    frames = read_current_frames()
    found = []
    for thread in threading.enumerate():
        if thread is threading.main_thread() or thread is threading.current_thread() or thread.daemon:
            continue
        frame = frames.get(thread.ident or 0)
        if frame is not None and not (frame.f_code.co_name == "_worker" and "concurrent" in frame.f_code.co_filename):
            found.append(thread)
    return found


def _find_line(thread: threading.Thread) -> str | None:
    return None if thread.ident is None else find_line_of_thread(thread.ident)
