"""Ports of this machine."""

from __future__ import annotations

import random
import socket
from contextlib import suppress

LOOPBACK = "127.0.0.1"
OURS = range(20_000, 30_000)
"""Below the ports that a system assigns itself (from 32768 or 49152 on), which may be taken at any moment."""
TRIES = 20


def free_port() -> int:
    """Return a TCP port that nothing listens on now. Another program may still take it first; callers must handle that."""
    # Independent of the seed: two runs with the same seed would choose the same ports.
    chosen = random.SystemRandom().sample(OURS, TRIES)
    for port in chosen:
        with suppress(OSError):
            return _bind(port)
    return _bind(0)


def _bind(port: int) -> int:
    """Bind a port and return it; 0 lets the system choose. Raises `OSError` if it is taken."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, port))
        bound: int = probe.getsockname()[1]
        return bound


def accepts(port: int, timeout_s: float = 1.0) -> bool:
    """Whether something on this machine accepts connections at a port."""
    try:
        socket.create_connection(("localhost", port), timeout=timeout_s).close()
    except OSError:
        return False
    return True
