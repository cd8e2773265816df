"""Ports of this machine."""

from __future__ import annotations

import importlib
import os
import random
import socket
import sys
from contextlib import suppress
from typing import Any

from astuner.shared.processes.process_members import MARK

LOOPBACK = "127.0.0.1"
OURS = range(20_000, 30_000)
"""Below the ports that a system assigns itself (from 32768 or 49152 on), which may be taken at any moment."""
TRIES = 20
SOCKETS = dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"), "lo0" if sys.platform == "darwin" else "lo")
"""Variables without which gloo and NCCL listen at the address of the machine's name."""


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


def keep_stores_here() -> None:
    """Let stores of torch that programs of a run open at 127.0.0.1 listen there alone: torch's listen on every interface."""
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")
    make = rendezvous.TCPStore

    def open_store(**named: Any) -> Any:
        if named.get("is_master") and named["host_name"] == LOOPBACK:
            # A second store at a port shares the socket of the first.
            with suppress(OSError):
                named["master_listen_fd"] = socket.create_server((LOOPBACK, named["port"])).detach()
        return make(**named)

    if MARK in os.environ:
        rendezvous.TCPStore = open_store
