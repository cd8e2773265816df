"""Names the line of a workflow that blocks the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections.abc import Callable

BLOCKED_AFTER_S = 2.0
"""How long a workflow may hold the loop before it is named."""

_IMPORT = "<frozen importlib._bootstrap>"
"""The file name of an import's frames."""


class LoopWatchdog:
    """Watches one event loop from a thread; reports each blocking line once."""

    def __init__(self, notify: Callable[[str], None], *, blocked_after_s: float = BLOCKED_AFTER_S) -> None:
        """Report through `notify`, which is called from the watching thread."""
        self._notify = notify
        self._blocked_after_s = blocked_after_s
        self._beat = time.monotonic()
        self._named: set[str] = set()
        self._over = threading.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Watch the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._pulse())
        thread_id = threading.get_ident()
        threading.Thread(target=self._watch, args=(thread_id,), name="astuner-loop-watchdog", daemon=True).start()

    def stop(self) -> None:
        """End the watch."""
        self._over.set()
        if self._task is not None:
            self._task.cancel()

    async def _pulse(self) -> None:
        while True:
            self._beat = time.monotonic()
            await asyncio.sleep(self._blocked_after_s / 4)

    def _watch(self, thread_id: int) -> None:
        while not self._over.wait(self._blocked_after_s / 4):
            if time.monotonic() - self._beat > self._blocked_after_s:
                self._report_blocking_line(thread_id)

    def _report_blocking_line(self, thread_id: int) -> None:
        frame = sys._current_frames().get(thread_id)
        stack = traceback.extract_stack(frame) if frame is not None else []
        entries = [i for i, entry in enumerate(stack) if entry.name == "execute"]
        if not entries:
            return  # something other than a workflow holds the loop, such as an engine's own step
        if any(entry.filename == _IMPORT for entry in stack[entries[-1] :]):
            return  # a library imported on first use: this happens once, and awaiting it would not help
        culprit = next(entry for entry in reversed(stack[entries[-1] :]) if entry.name == "execute" or not _is_installed(entry))
        place = f"{culprit.filename}:{culprit.lineno}"
        if place not in self._named:
            self._named.add(place)
            self._notify(
                f"a workflow has blocked all episodes for over {self._blocked_after_s:g} s at {place} ({culprit.line}): "
                "await it, or set rollout.isolation to thread or process"
            )


def _is_installed(entry: traceback.FrameSummary) -> bool:
    return "site-packages" in entry.filename or "/lib/python" in entry.filename
