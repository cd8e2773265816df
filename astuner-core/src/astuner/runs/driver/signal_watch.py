"""A thread that sees signals even while the main thread cannot handle them, and ends a process that does not end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from attrs import define, field

HANDLED_WITHIN_S = 5.0
"""For the main thread to handle the first signal; it cannot inside a long call of native code."""
ENDED_WITHIN_S = 10.0
"""For the process to end after the second signal."""
ENDING = (signal.SIGINT, signal.SIGTERM)


@define(eq=False)
class SignalWatch:
    """Watches while it is entered, in the main thread. Python runs handlers there alone, and this reads what the system wrote."""

    request_stop: Callable[[], object]
    """Called if the main thread has not handled the first signal in time; has no effect if it was called before."""
    end_by_force: Callable[[], object]
    """Called if the process has not left the block some time after the second signal."""
    _over: threading.Event = field(factory=threading.Event, init=False)
    _pipe: tuple[int, int] = field(factory=os.pipe, init=False)
    _before: int = field(default=-1, init=False)

    def __enter__(self) -> Self:
        """Begin."""
        os.set_blocking(self._pipe[1], False)
        self._before = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        threading.Thread(target=self._watch, name="astuner-signal-watch", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End."""
        self._over.set()
        signal.set_wakeup_fd(self._before)
        # The thread reads until then.
        os.close(self._pipe[1])

    def _watch(self) -> None:
        seen, acts = 0, {1: (HANDLED_WITHIN_S, self.request_stop), 2: (ENDED_WITHIN_S, self.end_by_force)}
        try:
            while number := self._read():
                seen += number in ENDING
                if number in ENDING and (late := acts.get(seen)):
                    threading.Thread(target=self._act_later, args=late, name="astuner-signal-watch", daemon=True).start()
        finally:
            os.close(self._pipe[0])

    def _read(self) -> int:
        """Return the number of the next signal, 0 at the end."""
        with suppress(OSError):
            return next(iter(os.read(self._pipe[0], 1)), 0)
        return 0

    def _act_later(self, after_s: float, act: Callable[[], object]) -> None:
        if not self._over.wait(after_s):
            act()
