"""The end of this process: not by `os._exit` in users' code, and not held up by threads that users' code has left behind."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from astuner.episodes.containment.threads import describe_threads, find_busy_threads

THREADS_GRACE_S = 3.0
"""For threads to end before the process ends without them."""

end_process_now = os._exit
"""What really ends this process at once."""


class ProcessExit(SystemExit):
    """Users' code wanted to end the process of the run."""


@contextmanager
def refuse_exits() -> Iterator[None]:
    """Let `os._exit` in this process raise while the block lasts; children that are forked from it still end by it."""
    here, before = os.getpid(), os._exit

    def refuse(status: int) -> NoReturn:
        if os.getpid() != here:
            end_process_now(status)
        raise ProcessExit(f"os._exit({status}) would have ended the process of the run, which plays other episodes too")

    os._exit = refuse
    try:
        yield
    finally:
        os._exit = before


def exit_process(status: int) -> NoReturn:
    """End this process with a status. Threads of users' code for which Python would wait are named and not waited for."""
    if threading.current_thread() is threading.main_thread():
        # There is nothing left to save, and Python would show where it was interrupted.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    until = time.monotonic() + THREADS_GRACE_S
    while find_busy_threads() and time.monotonic() < until:
        time.sleep(0.05)
    left = describe_threads(set())
    if not left:
        sys.exit(status)
    for text in left:
        print(f"warning: {text}", file=sys.stderr)
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # Its descriptor may have been closed.
        with suppress(OSError, ValueError):
            stream.flush()
    end_process_now(status)
