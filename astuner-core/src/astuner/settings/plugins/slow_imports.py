"""Says what is imported if that takes long: a module that waits at its top level looks like a run that does nothing."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from astuner.episodes.containment.code_lines import find_line_of_thread

SLOW_S = 8.0
"""Until a message names what is imported. Large libraries take a few seconds."""


@contextmanager
def name_slow_import(blame: str) -> Iterator[None]:
    """Print a line to stderr if the block takes long; `blame` is the component that it imports."""
    thread = threading.get_ident()

    def say() -> None:
        line = find_line_of_thread(thread)
        place = "" if line is None else f", which is at {line}"
        with suppress(OSError, ValueError, AttributeError):  # there may be no stderr
            print(f"info: still importing {blame}{place}", file=sys.stderr, flush=True)

    timer = threading.Timer(SLOW_S, say)
    timer.name, timer.daemon = "astuner-slow-import", True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
