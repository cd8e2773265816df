"""Listening, serving, and a quick end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable

from astuner.contract.errors import UsageError
from astuner.model.http_server import ServerLimits, listen, make_server
from astuner_logview.server.app import App

LIMITS = ServerLimits(max_connections=256, idle_timeout_s=60)


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 takes a free one. Raises `UsageError`."""
    try:
        return listen(host, port)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"astuner logview: cannot listen on {host}:{port}: {reason}. Choose another --port, or none for a free one"
        ) from error


async def serve(
    app: App,
    listening: socket.socket,
    *,
    started: Callable[[], None],
    ending: Callable[[], None],
    on_enter: Callable[[], None] | None,
) -> None:
    """Serve until SIGINT or SIGTERM.

    `started` is called once connections are accepted, `ending` before the server waits for its last answers, and `on_enter` for
    each line on standard input.
    """
    # Answers of other tabs are not waited for: Ctrl-C ends within a second.
    server = make_server(app, LIMITS, name="viewer", timeout_graceful_shutdown=0.5, server_header=False)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        ending()
        # What is still answered after the time limit is given up, which uvicorn would report at length.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL + 1)
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    if on_enter is not None:
        loop.add_reader(sys.stdin, _read_line, loop, on_enter)
    started()
    try:
        await server.serve(sockets=[listening])
    finally:
        if on_enter is not None:
            loop.remove_reader(sys.stdin)


def _read_line(loop: asyncio.AbstractEventLoop, on_enter: Callable[[], None]) -> None:
    if sys.stdin.readline():
        on_enter()
    else:
        loop.remove_reader(sys.stdin)
