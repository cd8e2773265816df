"""Threads for users' code. On a machine that has no room for one more, they wait for each other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from weakref import WeakSet

from astuner.episodes.containment.code_lines import find_line_of_thread, read_current_frames

_STARTED: WeakSet[threading.Thread] = WeakSet()
"""Threads that `start_thread` has started."""
MOST_NAMED = 5
_LOOK_AGAIN_S = 0.05
_PATIENCE_S = 5.0
"""How long to wait for room when none of them is left that could end."""


async def start_thread(work: Callable[[], object], name: str) -> None:
    """Start a daemon thread. If the machine refuses one more, wait until one of the others has ended.

    Raises the `RuntimeError` of the refusal if there is no other to wait for, and none can be started all the same.
    """
    loop = asyncio.get_running_loop()
    alone_since: float | None = None
    while True:
        thread = threading.Thread(target=work, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError:
            if any(other in _STARTED for other in threading.enumerate()):
                alone_since = None
            elif alone_since is None:
                alone_since = loop.time()
            elif loop.time() - alone_since > _PATIENCE_S:
                raise
            await asyncio.sleep(_LOOK_AGAIN_S)
            continue
        _STARTED.add(thread)
        return


def describe_threads(known: set[threading.Thread]) -> Sequence[str]:
    """Return a message about threads that would keep this process from ending; none without such threads."""
    busy = [thread for thread in find_busy_threads() if thread not in known]
    if not busy:
        return ()
    lines = [None if thread.ident is None else find_line_of_thread(thread.ident) for thread in busy[:MOST_NAMED]]
    named = [f"{thread.name}{f' at {line}' if line else ''}" for thread, line in zip(busy, lines, strict=False)]
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
