"""What a look at an event loop finds, and whether several of them show that users' code holds it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from astuner.episodes.containment.step_frames import UserFrame

BUSY = 0.5
"""The share of a core from which a thread computes, rather than waits."""


@frozen(kw_only=True)
class Look:
    """What one look found in the middle of a step of a task."""

    at_s: float
    step: tuple[int, int]
    """The task, and which of its steps this is."""
    frames: tuple[UserFrame, ...]
    """The user's calls, outermost first."""
    process_cpu_s: float
    """Time that this process has computed."""
    loop_cpu_s: float | None
    """Time that the loop's thread has computed; None where the system does not say."""
    asleep: bool
    """Whether the loop's thread waits, and no thread of this process waits for a core."""


@frozen(kw_only=True)
class Blame:
    """The call that holds the loop."""

    frame: UserFrame
    stays: bool
    """Whether it stayed at one line."""
    computes: bool
    """Whether it computes; else it waits."""


def find_blame(looks: Sequence[Look]) -> Blame | None:
    """Return the call that held the loop from the first look to the last; None if this is not certain.

    The looks are of one step. A machine or another thread that leaves the loop no time is not the user's doing.
    """
    first, last = looks[0], looks[-1]
    wall_s = last.at_s - first.at_s
    held = _find_common_call(looks)
    if held is None or wall_s <= 0:
        return None
    lines = {look.frames[held].line for look in looks}
    stays = len(lines) == 1
    frame = last.frames[held]
    if first.loop_cpu_s is not None and last.loop_cpu_s is not None and last.loop_cpu_s - first.loop_cpu_s >= BUSY * wall_s:
        return Blame(frame=frame, stays=stays, computes=True)
    innermost = all(len(look.frames) == held + 1 for look in looks)
    idle = last.process_cpu_s - first.process_cpu_s < BUSY * wall_s and all(look.asleep for look in looks)
    return Blame(frame=frame, stays=True, computes=False) if idle and innermost and stays else None


def _find_common_call(looks: Sequence[Look]) -> int | None:
    """Return the place of the innermost call that every look found."""
    depth = 0
    for calls in zip(*(look.frames for look in looks), strict=False):
        if len(set(calls)) > 1:
            break
        depth += 1
    return depth - 1 if depth else None


@frozen
class ThreadMeter:
    """Reads what a thread of this process does; the thread may have ended."""

    thread: int
    native: int

    def read_process_cpu_s(self) -> float:
        """Return the time that this process has computed."""
        return time.process_time()

    def read_cpu_s(self) -> float | None:
        """Return the time that it has computed; macOS has no clock of another thread."""
        clock = getattr(time, "pthread_getcpuclockid", None)
        return None if clock is None else time.clock_gettime(clock(self.thread))

    def is_asleep(self) -> bool:
        """Whether it waits, and nothing else in this process waits for a core. True where the system does not say."""
        states = dict(_read_states())
        if not states:
            return True
        # This thread runs, since it asks.
        states.pop(threading.get_native_id(), None)
        return states.get(self.native) == "S" and "R" not in states.values()


def _read_states() -> Iterator[tuple[int, str]]:
    """Yield each thread of this process and the letter of its state, on Linux."""
    try:
        tasks = list(Path("/proc/self/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            yield int(task.name), (task / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue  # the thread has just ended
