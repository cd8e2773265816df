"""Ports of this machine."""

from __future__ import annotations

import socket

LOOPBACK = "127.0.0.1"


def free_port() -> int:
    """Return a TCP port that nothing listens on now. Another program may still take it first: whoever uses it must cope."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def accepts(port: int, timeout_s: float = 1.0) -> bool:
    """Whether something on this machine accepts connections at a port."""
    try:
        socket.create_connection(("localhost", port), timeout=timeout_s).close()
    except OSError:
        return False
    return True
