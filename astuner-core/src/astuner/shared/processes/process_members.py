"""The processes that belong to one program: found and ended.

Imports psutil and nothing of astuner, since the guard loads this file by its path.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

import psutil

MARK = "ASTUNER_PROGRAM"
"""Environment variable that a program and all below it carry: the id of its record, in the guard `guard:` and the id."""

RESCAN_S = 0.25
"""Interval of the search for new members while a program is being ended."""
GIVE_UP_S = 10.0
"""A process that survives SIGKILL for this long hangs in the kernel and cannot be ended."""


def find_members(program: str, guard: int) -> list[psutil.Process]:
    """Return the living processes of a program: all that it started, including other groups and sessions.

    They are known by the mark in their environment. One whose environment cannot be read, or was overwritten by a changed process
    title, belongs with its parent, and an orphan with its session. A program that one of them started through astuner carries
    another mark, and is left alone.
    """
    table = {process.pid: process for process in psutil.process_iter()}
    marks = {pid: read_mark(process) for pid, process in table.items()}
    known: dict[int, bool] = {}

    def belongs(pid: int) -> bool:
        if pid not in known:
            known[pid] = False
            if pid in table:
                known[pid] = _belongs(pid)
        return known[pid]

    def _belongs(pid: int) -> bool:
        if (mark := marks[pid]) is not None:
            return mark == program
        with contextlib.suppress(psutil.Error, OSError):
            parent = table[pid].ppid()
            return marks.get(parent) == f"guard:{program}" or belongs(parent) or os.getsid(pid) == guard
        return False

    return [process for pid, process in table.items() if belongs(pid) and is_living(process)]


def end_members(find: Callable[[], list[psutil.Process]], grace_s: float) -> list[int]:
    """Ask all members to end (SIGTERM), kill those left after the grace period; return the pids that survive even that."""
    killing = time.monotonic() + grace_s
    terminated: set[psutil.Process] = set()
    while left := find():
        now = time.monotonic()
        if now > killing + GIVE_UP_S:
            return [process.pid for process in left]
        for process in left:
            with contextlib.suppress(psutil.Error):
                if now >= killing:
                    process.kill()
                elif process not in terminated:
                    process.terminate()
                    # A stopped process handles no signal before it continues.
                    process.send_signal(signal.SIGCONT)
        terminated.update(left)
        _wait(left, RESCAN_S if now >= killing else min(RESCAN_S, killing - now))
    return []


def _wait(processes: list[psutil.Process], timeout_s: float) -> None:
    # Not psutil's wait: for a child it would consume the exit status that its parent needs.
    until = time.monotonic() + timeout_s
    while time.monotonic() < until and any(map(is_living, processes)):
        time.sleep(0.02)


def is_living(process: psutil.Process) -> bool:
    """Whether a process has not ended; zombies have."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def read_mark(process: psutil.Process, variable: str = MARK) -> str | None:
    """Return the mark that a process carries in a variable; None without one, or if its environment cannot be read."""
    try:
        return process.environ().get(variable)
    except (psutil.Error, OSError):
        return None
