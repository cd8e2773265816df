"""The line at which users' code is, or was when it raised, and the calls of every thread."""

from __future__ import annotations

import gc
import sys
import sysconfig
import threading
import traceback
from collections.abc import Mapping, Sequence
from itertools import dropwhile
from pathlib import Path
from types import FrameType
from typing import Any

_PACKAGES = str(Path(__file__).parents[2])
"""Directory of this package; its plugins' directories begin with the same name."""
_LIBRARIES = tuple({str(Path(sysconfig.get_path(name))) for name in ("stdlib", "platstdlib")})

_READING = threading.Lock()
_GENERATED = ("<frozen", "<attrs generated", "<string>")


def is_own(filename: str) -> bool:
    """Whether a file is this package's or one of its plugins', or the text that attrs writes for a class of theirs."""
    return filename.startswith((_PACKAGES, "<attrs generated methods astuner"))


def is_installed(filename: str) -> bool:
    """Whether a file belongs to a library or to Python, or is the text of a generated function."""
    return filename.startswith((*_LIBRARIES, *_GENERATED)) or "site-packages" in filename


def find_line(stack: Sequence[traceback.FrameSummary]) -> str | None:
    """Return the innermost line of a stack, outermost first, that is neither this package's nor a library's.

    It has the form `agent.py:12 in solve`. The innermost line of all if there is none.
    """
    return _find_user_line(stack) or (_format(stack[-1]) if stack else None)


def find_line_of_error(error: BaseException, own_file: str | None = None) -> str | None:
    """Return the line of users' code that raised an error, or that led to it; None if `own_file` has raised it."""
    stack = traceback.extract_tb(error.__traceback__)
    return None if stack and stack[-1].filename == own_file else find_line(stack)


def find_line_of_thread(thread: int, *, in_loop: bool = False) -> str | None:
    """Return the line of users' code at which a thread is, inside its event loop if one runs there; None if it runs none.

    A script that calls this package in the main thread is not what runs there. With `in_loop`, None without an event loop too.
    """
    frame = read_current_frames().get(thread)
    stack = [] if frame is None else list(traceback.extract_stack(frame))
    if thread == threading.main_thread().ident:
        stack = list(dropwhile(lambda entry: not is_own(entry.filename), stack)) or stack
    loops = [place for place, entry in enumerate(stack) if entry.name == "run_forever" and is_installed(entry.filename)]
    return _find_user_line(stack[loops[-1] :] if loops else [] if in_loop else stack)


def find_line_of_coroutine(work: Any) -> str | None:
    """Return the line at which a suspended coroutine waits, in what it awaits."""
    stack: list[traceback.FrameSummary] = []
    while work is not None:
        frame: FrameType | None = getattr(work, "cr_frame", None) or getattr(work, "gi_frame", None)
        if frame is not None:
            stack += traceback.StackSummary.extract([(frame, frame.f_lineno)])
        work = getattr(work, "cr_await", None) or getattr(work, "gi_yieldfrom", None)
    return find_line(stack)


def _find_user_line(stack: Sequence[traceback.FrameSummary]) -> str | None:
    for entry in reversed(stack):
        if not is_own(entry.filename) and not is_installed(entry.filename):
            return _format(entry)
    return None


def _format(entry: traceback.FrameSummary) -> str:
    function = "" if entry.name == "<module>" else f" in {entry.name}"
    return f"{format_file(entry.filename)}:{entry.lineno}{function}"


def format_file(filename: str) -> str:
    """Return the path of a file from the place where Python finds it, such as the directory of the configuration."""
    roots = [root for root in (*sys.path, str(Path.cwd())) if filename.startswith(f"{root.rstrip('/')}/") and root]
    return filename[len(max(roots, key=len).rstrip("/")) + 1 :] if roots else filename


def read_current_frames() -> Mapping[int, FrameType]:
    """Return the innermost frame of each thread, by the thread's id.

    Garbage is not collected meanwhile: Python 3.11 holds a lock of its own here, and a collection that lets another thread run,
    which starts or ends a thread, waits for it for ever (gh-106883 of CPython).
    """
    # One at a time: a second reader would find the collection off, and the first would switch it on under it.
    with _READING:
        if not gc.isenabled():
            return sys._current_frames()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            gc.enable()
