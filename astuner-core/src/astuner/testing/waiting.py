"""Waiting for what another process, thread or task will do."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

import psutil

T = TypeVar("T")
LOOK_S = 0.02


def until(holds: Callable[[], T], limit_s: float = 30.0) -> T:
    """Ask again and again until the answer is true, and return it; raises AssertionError after `limit_s` seconds."""
    end = time.monotonic() + limit_s
    while not (value := holds()):
        assert time.monotonic() < end, f"after {limit_s:g} s it was still {value!r}"
        time.sleep(LOOK_S)
    return value


async def until_so(holds: Callable[[], T], limit_s: float = 30.0) -> T:
    """Do as `until` does, letting the other tasks of the event loop go on."""
    end = time.monotonic() + limit_s
    while not (value := holds()):
        assert time.monotonic() < end, f"after {limit_s:g} s it was still {value!r}"
        await asyncio.sleep(LOOK_S)
    return value


def is_alive(pid: int) -> bool:
    """Whether a process is there and has not ended: one that has ended may wait for long to be buried."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
