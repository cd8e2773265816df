"""The standard streams of this process, which users' code may replace or close."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from astuner.episodes.containment.user_code import find_running_code

MOST_REPEATS = 3
"""Of one text that users' code, or a library under it, writes to a log."""

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


class _CountedStream:
    """A stream that leaves out what users' code writes to it again and again; the run's own texts pass."""

    def __init__(self, stream: TextIO, written: Counter[str]) -> None:
        self._stream, self._written, self._skips = stream, written, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if find_running_code() is not None:
            # `print` writes the end of its line on its own.
            if text.strip():
                self._written[text] += 1
                self._skips = self._written[text] > MOST_REPEATS
            if self._skips:
                return len(text)
        return self._stream.write(text)


@contextmanager
def count_repeats(notify: Callable[[str], None]) -> Iterator[None]:
    """Show a text of users' code a few times and then count it, where the output is a file: a library may fill a log with it."""
    written: Counter[str] = Counter()
    with ExitStack() as stack:
        for stream, redirect in ((sys.stdout, redirect_stdout), (sys.stderr, redirect_stderr)):
            if stream is not None and not stream.isatty():
                stack.enter_context(redirect(cast("TextIO", _CountedStream(stream, written))))
        yield
    for text, count in written.most_common(MOST_REPEATS):
        if count > MOST_REPEATS:
            notify(f"the agent's code printed this {count} times, of which {MOST_REPEATS} are shown: {text.strip()[:100]}")


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
