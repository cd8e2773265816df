"""The standard streams of this process, which users' code may replace or close."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_NAMES = ("stdin", "stdout", "stderr")


@contextmanager
def keep_streams() -> Iterator[None]:
    """Put the streams back after the block; one that was closed takes what is written to it and drops it."""
    before = {name: getattr(sys, name) for name in _NAMES}
    try:
        yield
    finally:
        for name, stream in before.items():
            if stream is not None and stream.closed:
                stream = open(os.devnull, "r" if name == "stdin" else "w", encoding="utf-8")  # noqa: SIM115 - open until the end
            setattr(sys, name, stream)


def open_missing_descriptors() -> None:
    """Open the null device as those of descriptors 0 to 2 that are closed.

    The next file or socket would get the number otherwise, and with it what is printed, and would be closed in its place.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
