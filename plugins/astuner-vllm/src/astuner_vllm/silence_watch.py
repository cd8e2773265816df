"""Detects a server that sends nothing at all while it owes answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class SilenceWatch:
    """Calls back everyone waiting for a server that has sent nothing to any of them for too long.

    A single slow request is not silence: it may be waiting in the server's queue.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._waiting: set[Callable[[], None]] = set()
        self._heard = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._excused = False

    def add_waiter(self, give_up: Callable[[], None]) -> None:
        """Start to wait for an answer; `give_up` is called if the server is silent for too long."""
        if not self._waiting:
            self.note_activity()
        self._waiting.add(give_up)
        if self._timer is None:
            self._arm()

    def remove_waiter(self, give_up: Callable[[], None]) -> None:
        """End waiting."""
        self._waiting.discard(give_up)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def note_activity(self) -> None:
        """Note that the server sent something."""
        self._heard = asyncio.get_running_loop().time()

    def excuse(self) -> None:
        """Start a time in which the server is silent on request."""
        self._excused = True

    def resume(self) -> None:
        """End such times."""
        self._excused = False
        self.note_activity()

    def _arm(self) -> None:
        loop = asyncio.get_running_loop()
        due = self._heard + self.limit_s
        self._timer = loop.call_at(max(due, loop.time() + min(1.0, self.limit_s)), self._check)

    def _check(self) -> None:
        self._timer = None
        silent_s = asyncio.get_running_loop().time() - self._heard
        if not self._excused and silent_s >= self.limit_s:
            for give_up in tuple(self._waiting):
                give_up()
        elif self._waiting:
            self._arm()
