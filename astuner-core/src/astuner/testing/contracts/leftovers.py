"""The running threads and child processes of this process."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path

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
    proc = Path("/proc")
    if not (proc / "self" / "stat").exists():
        # Outside Linux, only processes started by multiprocessing are known.
        return {f"process {child.pid}": f"process {child.pid} ({child.name})" for child in multiprocessing.active_children()}
    found: dict[str, str] = {}
    for path in proc.glob("[0-9]*/stat"):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        # The name is in parentheses and may contain any character, so split at the last one.
        name, _, rest = text.partition("(")[2].rpartition(")")
        state, parent = rest.split()[:2]
        if int(parent) == os.getpid() and state not in "ZX":
            found[f"process {path.parent.name}"] = f"process {path.parent.name} ({name})"
    return found
