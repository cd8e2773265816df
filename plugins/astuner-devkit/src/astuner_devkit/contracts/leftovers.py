"""The running threads and child processes of this process."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping

import psutil

from astuner.shared.processes.process_members import is_living

PATIENCE_S = 10.0
"""Time limit for something that is ending."""


def list_running() -> Mapping[str, str]:
    """Return every thread and child process by a unique identity, with its name."""
    threads = {f"thread {thread.ident}": f"thread {thread.name!r}" for thread in threading.enumerate()}
    return {**threads, **_list_children()}


def find_left_running(before: Mapping[str, str]) -> list[str]:
    """Return what runs now and did not run before, after waiting for anything that is ending."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        left = [name for identity, name in list_running().items() if identity not in before]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def _list_children() -> Mapping[str, str]:
    found: dict[str, str] = {}
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):  # it ended meanwhile
            if is_living(child):
                found[f"process {child.pid}"] = f"process {child.pid} ({child.name()})"
    return found
