"""Stopping the clock of an event loop while a debugger holds it, so that no time limit passes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

_held_s: WeakKeyDictionary[Any, float] = WeakKeyDictionary()
"""By event loop, the total time it was held."""


@contextmanager
def stop_clock() -> Iterator[None]:
    """Hold the running event loop of this thread, if there is one, and then set its clock back by the elapsed time."""
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
