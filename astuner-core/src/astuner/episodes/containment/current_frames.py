"""What every thread is running, read without the risk that Python itself stops for good."""

from __future__ import annotations

import gc
import sys
from collections.abc import Mapping
from threading import Lock
from types import FrameType

_READING = Lock()


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
