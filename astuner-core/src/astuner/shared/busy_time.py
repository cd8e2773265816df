"""The time in which an engine has work."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


class BusyTime:
    """Adds up the time in which at least one request is under way."""

    def __init__(self) -> None:
        """Begin with none."""
        self._under_way, self._since, self._sum = 0, 0.0, 0.0

    @property
    def seconds(self) -> float:
        """The seconds so far."""
        return self._sum + (time.perf_counter() - self._since if self._under_way else 0.0)

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count the time of the block."""
        if self._under_way == 0:
            self._since = time.perf_counter()
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if self._under_way == 0:
                self._sum += time.perf_counter() - self._since
