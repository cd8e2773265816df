"""The progress of a generation, on stderr: one changing line on a terminal, else a line at intervals."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from attrs import define, field

_PAUSE_S = 5.0
"""Between two lines without a terminal."""


@define(eq=False)
class Progress:
    """The display of one split."""

    split: str
    stream: TextIO = field(factory=lambda: sys.stderr)
    clock: Callable[[], float] = time.monotonic
    _last: float | None = field(default=None, init=False)

    def __call__(self, kept: int, wanted: int, requests: int) -> None:
        """Show it."""
        line = f"generating {self.split} tasks: {min(kept, wanted)} of {wanted}, {requests} requests"
        if self.stream.isatty():
            self.stream.write(f"\r\x1b[K{line}")
            self.stream.flush()
            return
        if self._last is None or self.clock() - self._last >= _PAUSE_S:
            self._last = self.clock()
            self.stream.write(f"{line}\n")

    def end(self) -> None:
        """Leave the line as it is."""
        if self.stream.isatty():
            self.stream.write("\n")
