"""Names the line of a workflow that blocks the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from attrs import frozen

BLOCKED_AFTER_S = 2.0
"""How long a workflow may hold the loop before it is named."""

_IMPORT = "<frozen importlib._bootstrap>"
"""The file name of an import's frames."""
_PACKAGES = str(Path(__file__).parents[1])
"""Directory of this package; its plugins' directories begin with the same name."""


@frozen(kw_only=True)
class Silence:
    """What happened since the loop last did anything."""

    wall_s: float
    loop_cpu_s: float
    """Time that the loop's thread computed."""
    other_cpu_s: float
    """Time that the other threads of this process computed: they may have held the interpreter."""
    runnable: bool
    """Whether the loop's thread waits for nothing but a core."""

    def shows_blocking(self, *, same_line: bool) -> bool:
        """Whether the workflow is to blame, and not a busy machine. `same_line`: it was at this line at the last look too."""
        if self.loop_cpu_s >= self.wall_s / 2:
            return True
        return same_line and not self.runnable and self.other_cpu_s < self.wall_s / 2


class LoopWatchdog:
    """Watches one event loop from a thread; reports each blocking line once."""

    def __init__(self, notify: Callable[[str], None], *, blocked_after_s: float = BLOCKED_AFTER_S) -> None:
        """Report through `notify`, which is called from the watching thread."""
        self._notify = notify
        self._blocked_after_s = blocked_after_s
        self._beat = (time.monotonic(), 0.0, 0.0)
        self._named: set[str] = set()
        self._last: str | None = None
        self._over = threading.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._pulse())
        self._beat = (time.monotonic(), time.thread_time(), time.process_time())
        threads = (threading.get_ident(), threading.get_native_id())
        threading.Thread(target=self._watch, args=threads, name="astuner-loop-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        self._over.set()
        if self._task is not None:
            self._task.cancel()

    async def _pulse(self) -> None:
        while True:
            self._beat = (time.monotonic(), time.thread_time(), time.process_time())
            await asyncio.sleep(self._blocked_after_s / 4)

    def _watch(self, thread: int, native: int) -> None:
        while not self._over.wait(self._blocked_after_s / 4):
            silence = self._measure(thread, native)
            line = _find_line(thread) if silence.wall_s > self._blocked_after_s else None
            place = None if line is None else f"{line.filename}:{line.lineno}"
            if line is not None and place is not None and silence.shows_blocking(same_line=place == self._last):
                self._report(place, line.line or "")
            self._last = place

    def _measure(self, thread: int, native: int) -> Silence:
        wall, loop_cpu, cpu = self._beat
        # macOS has no clock of another thread.
        clock = getattr(time, "pthread_getcpuclockid", None)
        own = 0.0 if clock is None else time.clock_gettime(clock(thread)) - loop_cpu
        return Silence(
            wall_s=time.monotonic() - wall,
            loop_cpu_s=own,
            other_cpu_s=time.process_time() - cpu - own,
            runnable=_is_runnable(native),
        )

    def _report(self, place: str, line: str) -> None:
        if place in self._named:
            return
        self._named.add(place)
        remedy = "run what blocks in a thread (asyncio.to_thread)" if "await " in line else "await it"
        self._notify(
            f"a workflow has blocked all episodes for over {self._blocked_after_s:g} s at {place} ({line}): "
            f"{remedy}, or set rollout.isolation to thread or process"
        )


def _find_line(thread: int) -> traceback.FrameSummary | None:
    """Return the line at which a workflow holds the loop of a thread; None if something else does."""
    frame = sys._current_frames().get(thread)
    stack = [entry for entry in (traceback.extract_stack(frame) if frame is not None else []) if not _is_own(entry)]
    entries = [i for i, entry in enumerate(stack) if entry.name == "execute"]
    if not entries:
        return None  # an engine's own step, for example
    inside = stack[entries[-1] :]
    if any(entry.filename == _IMPORT for entry in inside):
        return None  # a library imported on first use: this happens once, and awaiting it would not help
    return next(entry for entry in reversed(inside) if entry.name == "execute" or not _is_installed(entry))


def _is_own(entry: traceback.FrameSummary) -> bool:
    return entry.filename.startswith(_PACKAGES)


def _is_installed(entry: traceback.FrameSummary) -> bool:
    return "site-packages" in entry.filename or "/lib/python" in entry.filename


def _is_runnable(native: int) -> bool:
    """Whether a thread of this process runs or waits for a core; False where the system does not say."""
    try:
        state = Path(f"/proc/self/task/{native}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state == "R"
