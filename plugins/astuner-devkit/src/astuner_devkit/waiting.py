"""Waiting for another process, thread or task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import psutil

from astuner.shared.processes.process_members import is_living

T = TypeVar("T")
LOOK_S = 0.02


def until(holds: Callable[[], T], limit_s: float = 30.0) -> T:
    """Call `holds` until its result is true, and return it; raises AssertionError after `limit_s` seconds."""
    end = time.monotonic() + limit_s
    while not (value := holds()):
        assert time.monotonic() < end, f"after {limit_s:g} s it was still {value!r}"
        time.sleep(LOOK_S)
    return value


async def until_so(holds: Callable[[], T], limit_s: float = 30.0) -> T:
    """Like `until`, but lets other tasks of the event loop run."""
    end = time.monotonic() + limit_s
    while not (value := holds()):
        assert time.monotonic() < end, f"after {limit_s:g} s it was still {value!r}"
        await asyncio.sleep(LOOK_S)
    return value


def is_alive(pid: int) -> bool:
    """Whether a process with this pid lives."""
    try:
        return is_living(psutil.Process(pid))
    except psutil.NoSuchProcess:
        return False
