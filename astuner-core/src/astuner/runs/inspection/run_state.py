"""What a run does now, or how it ended, found without taking its lock."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any, Literal

from attrs import frozen

from astuner.shared.private_files import open_stored

Status = Literal["starting", "running", "finished", "interrupted", "failed", "killed", "unknown", "damaged"]

CLOCKS_DIFFER_S = 2.0
"""Between the clock of a file system and that of the processes."""


@frozen(kw_only=True)
class RunState:
    """The state of a run."""

    status: Status
    """`killed`: its process has gone. `unknown`: runs, or was killed, on another machine. `damaged`: has no readable record."""
    detail: str = ""
    """The reason of a failure, or what is not known."""


def find_state(directory: Path, state: dict[str, Any], facts: dict[str, Any]) -> RunState:
    """Return the state of a run by `state.json` and `run.json` as they were read, and by its process."""
    status = state.get("status")
    if status in ("finished", "interrupted", "failed"):
        return RunState(status=status, detail=str(state.get("reason", "")))
    host = (facts.get("attempts") or [{}])[-1].get("host")
    if host is not None and host != socket.gethostname():
        return RunState(status="unknown", detail=f"started on {host}, last written {state.get('written', 'at its start')}")
    if _holds_lock(directory / "lock"):
        return RunState(status="running" if status == "running" else "starting")
    return RunState(status="killed")


def _holds_lock(lock: Path) -> bool:
    """Whether the process that took the lock last still lives: taking it, even for a moment, could stop a run from starting."""
    import psutil

    try:
        with open_stored(lock) as file:
            pid, locked = int(file.read().strip()), lock.stat().st_mtime
        process = psutil.Process(pid)
        # A process that took over the number was born after the lock was written.
        return process.create_time() < locked + CLOCKS_DIFFER_S and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, psutil.Error):
        return False
