"""A thread that sends reports to one server, so that no run waits for it, and counts what did not arrive."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Protocol

from astuner_loggers.otel.otlp import ABANDONED
from astuner_loggers.otel.report import Report

MOST_WAITING = 8
"""Reports that wait for a server; a further one is lost."""
FAILING_WAIT_S = 2.0
"""At the end of a run, the longest wait for a server that does not accept what it is sent."""
_LAST_BREATH_S = 0.5


class Deliverer(Protocol):
    """What sends (`Destination`)."""

    @property
    def address(self) -> str:
        """Where it sends to."""

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""

    def deliver(self, report: Report) -> Iterator[tuple[frozenset[str], str | None]]:
        """Send; yield ids of episodes with why they were not accepted."""

    def abort(self) -> None:
        """End what is being sent."""


class Sender:
    """Sends in the background; nothing but `close` waits."""

    def __init__(self, destination: Deliverer) -> None:
        self._destination = destination
        self._changed = threading.Condition()
        self._waiting: deque[Report] = deque()
        self._is_closing = self._is_abandoned = False
        self._total = self._arrived = 0
        self._problem: str | None = None
        """The first one."""
        self._warned = False
        self._thread = threading.Thread(target=self._run, name=f"otel {destination.address}", daemon=True)
        self._thread.start()

    def put(self, report: Report) -> str | None:
        """Queue a report; return, once, why something was lost."""
        with self._changed:
            self._total += len(report.episodes)
            if len(self._waiting) < MOST_WAITING:
                self._waiting.append(report)
                self._changed.notify()
            elif self._problem is None:
                self._problem = f"it is too slow: {MOST_WAITING} steps waited for it"
            if self._problem is None or self._warned:
                return None
            self._warned = True
            return f"{self._destination.address}: {self._problem}"

    def begin_close(self) -> None:
        """Take no further report."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()

    def close(self, wait_s: float) -> str | None:
        """Send what waits, for at most `wait_s`; return how much was lost, and why, or None."""
        self.begin_close()
        self._wait(wait_s)
        if self._thread.is_alive():
            with self._changed:
                self._is_abandoned = True
            self._destination.abort()
            self._thread.join(_LAST_BREATH_S)
        else:
            self._destination.abort()
        with self._changed:
            lost = self._total - self._arrived
            if not lost:
                return None
            reason = self._problem or f"it did not take them within {wait_s:g} s of the end of the run (option 'timeout_s')"
            return f"{self._destination.address}: {lost} of {self._total} episodes did not arrive: {reason}"

    def _wait(self, wait_s: float) -> None:
        begun = time.monotonic()
        while self._thread.is_alive() and (passed := time.monotonic() - begun) < wait_s:
            if self._destination.is_failing and passed > FAILING_WAIT_S:
                return
            self._thread.join(min(0.1, wait_s - passed))

    def _run(self) -> None:
        try:
            while (report := self._take()) is not None:
                self._deliver(report)
        except Exception as error:  # noqa: BLE001 - the boundary of the thread: what is left is lost, and reported with this reason
            self._note(f"{type(error).__name__}: {error}")

    def _take(self) -> Report | None:
        """Return the next report; None at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            return self._waiting.popleft() if self._waiting and not self._is_abandoned else None

    def _deliver(self, report: Report) -> None:
        before = self._arrived
        accepted: set[str] = set()
        lost: set[str] = set()
        for episodes, problem in self._destination.deliver(report):
            (accepted if problem is None else lost).update(episodes)
            if problem is not None:
                self._note(problem)
            with self._changed:
                # An episode whose spans need several requests arrives with all of them.
                self._arrived = before + len(accepted - lost)
                if self._is_closing and (self._is_abandoned or (problem is not None and self._destination.is_failing)):
                    self._waiting.clear()
                    return

    def _note(self, problem: str) -> None:
        if problem == ABANDONED:
            return
        with self._changed:
            self._problem = self._problem or problem
