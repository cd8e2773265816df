"""The server and its socket: it accepts connections within its limits, and keeps quiet when descriptors run out."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from typing import Any

from astuner.model.http_server.connections import DROPPING, ServerLimits, make_protocol
from astuner.model.http_server.hosts import App, Receive, Scope, Send

log = logging.getLogger(__name__)

EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
BACKLOG = 2048
"""Clients that the kernel lets wait."""
SEND_BUFFER = 1 << 18
"""Bytes of an answer that the system holds for a client; it takes more once a third of them are read, which is how that shows."""
PAUSE_S = 0.5
"""Before another connection is tried when there is no room for one."""


def make_server(app: App, limits: ServerLimits, *, name: str, **options: Any) -> Any:
    """Return a `uvicorn.Server` for `serve(sockets=[…])`, held to the limits. Signals are left to the program.

    `name` is what notices call it; `options` go to `uvicorn.Config`.
    """
    import uvicorn

    class BoundedServer(uvicorn.Server):
        """Accepts connections itself: asyncio logs every failure to do so, thousands in a second."""

        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self._accepting: list[asyncio.Task[None]] = []
            self._noted: set[str] = set()
            self._connections: Any = self.server_state.connections

        capture_signals = staticmethod(contextlib.nullcontext)  # type: ignore[assignment] # uvicorn would take them

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets=[])
            self._accepting = [asyncio.create_task(self._accept(listening)) for listening in sockets or ()]

        async def on_tick(self, counter: int) -> bool:
            now = asyncio.get_running_loop().time()
            for connection in tuple(self._connections):
                connection.check(now)
            return await super().on_tick(counter)

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            for task in self._accepting:
                task.cancel()
            await asyncio.gather(*self._accepting, return_exceptions=True)
            # Before uvicorn cancels what answers them, at length in the log.
            giving_up = asyncio.get_running_loop().call_later(known["timeout_graceful_shutdown"] / 2, self._drop_unread)
            await super().shutdown(sockets=sockets)
            giving_up.cancel()
            for connection in tuple(self._connections):
                connection.transport.abort()

        async def _accept(self, listening: socket.socket) -> None:
            loop, make_connection = asyncio.get_running_loop(), make_protocol(limits)
            while True:
                await self._find_place()
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError as error:
                    if error.errno in EXHAUSTED:
                        self._note(f"{name}: no connection can be accepted ({error.strerror}); raise `ulimit -n`. Clients wait.")
                        await asyncio.sleep(PAUSE_S)
                    continue
                try:
                    await loop.connect_accepted_socket(lambda: make_connection(self.config, self.server_state, {}), connection)
                except OSError:
                    # The client has left.
                    connection.close()

        async def _find_place(self) -> None:
            """Wait until a connection more may be open; those on which nothing is asked give way."""
            while len(self._connections) >= (places := limits.count_places()):
                self._note(f"{name}: all {places} connections are in use. Further clients wait.")
                least = min(self._connections, key=_rank)
                if _rank(least)[0]:
                    await asyncio.sleep(PAUSE_S)
                else:
                    least.transport.abort()
                    await asyncio.sleep(0)

        def _drop_unread(self) -> None:
            for connection in tuple(self._connections):
                if connection.transport.get_write_buffer_size():
                    connection.transport.abort()

        def _note(self, text: str) -> None:
            if text not in self._noted:
                self._noted.add(text)
                log.warning(text)

    known: dict[str, Any] = {
        "lifespan": "off",
        "ws": "none",
        "access_log": False,
        # On loopback, any client could say where it calls from.
        "proxy_headers": False,
        "log_config": None,
        # Not for each client that sends garbage.
        "log_level": "error",
        "timeout_graceful_shutdown": 2,
        "timeout_keep_alive": limits.idle_timeout_s,
    } | options
    return BoundedServer(uvicorn.Config(_let_end(app), **known))


def _let_end(app: App) -> App:
    """Return an application that Ctrl-C and the end of the event loop end, silently; uvicorn logs both and goes on."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except (KeyboardInterrupt, asyncio.CancelledError) as ending:
            if isinstance(ending, KeyboardInterrupt):
                asyncio.get_running_loop().call_soon(_raise, ending)
            scope["extensions"][DROPPING]()

    return answer


def _raise(error: BaseException) -> None:
    raise error


def _rank(connection: Any) -> tuple[bool, bool, float]:
    """Sort connections: those that never asked, those that are idle, those with a request; the oldest first."""
    return connection.answered is not None or connection.reads_body, connection.cycle is not None, connection.begun


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; raises OSError. Port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With an explicit protocol, asyncio sends small writes at once; else an answer's body waits 40 ms for its head's ACK.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        listening.bind((host, port))
        listening.setblocking(False)
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
