"""Ports of this machine."""

from __future__ import annotations

import random
import socket

LOOPBACK = "127.0.0.1"
OURS = range(20_000, 30_000)
"""Below those that a system hands out by itself (from 32768 or 49152 on): of these any may be taken the next moment."""
TRIES = 20


def free_port() -> int:
    """Return a TCP port that nothing listens on now. Another program may still take it first: whoever uses it must cope."""
    # Its own source of randomness: two runs of one seed would choose alike.
    chosen = random.SystemRandom().sample(OURS, TRIES)
    # The last is any that the system has.
    return next(port for wanted in (*chosen, 0) if (port := _bound(wanted)))


def _bound(wanted: int) -> int:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, wanted))
        except OSError:
            if wanted == 0:
                raise
            return 0
        port: int = probe.getsockname()[1]
        return port


def accepts(port: int, timeout_s: float = 1.0) -> bool:
    """Whether something on this machine accepts connections at a port."""
    try:
        socket.create_connection(("localhost", port), timeout=timeout_s).close()
    except OSError:
        return False
    return True
