"""Sockets to listen on."""

from __future__ import annotations

import socket

BACKLOG = 2048
"""Clients that the kernel lets wait."""


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises OSError. Port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio sends small writes at once; else an answer's body waits 40 ms for its head's ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.setblocking(False)
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
