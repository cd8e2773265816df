"""Connections from a sandbox without a network to the gateway."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any
from urllib.parse import SplitResult, urlsplit

from astuner.contract.errors import ServiceUnavailable

CHUNK = 65536
CONNECTIONS = 64
"""At a time, for all programs of a sandbox; each takes file descriptors of the run."""
INSIDE = 8000
"""The port inside, where the gateway's own is one that only root may open."""


class GatewayConnections:
    """What passes bytes on between a sandbox and the gateway. Belongs to one event loop."""

    def __init__(self, url: str | None, port: int | None = None) -> None:
        """Raises `ServiceUnavailable` for a URL that cannot be relayed; None passes nothing on. `port` is the one inside."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._address: tuple[str, int] | None = None
        self.url: str | None = None
        """The same address as programs inside reach it."""
        if url is not None:
            parts = urlsplit(url)
            if parts.scheme != "http" or parts.hostname is None:
                raise ServiceUnavailable(
                    f"{url}: a sandbox without a network reaches a gateway by http only; remove gateway.public_url, or choose "
                    "another sandbox (astuner.sandbox.type)"
                )
            self._address = parts.hostname, parts.port or 80
            self.port = port or (self._address[1] if self._address[1] >= 1024 else INSIDE)
            self.url = SplitResult("http", f"127.0.0.1:{self.port}", parts.path, parts.query, "").geturl()

    async def close(self) -> None:
        """End all connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # asyncio's own server reports the end of a task that was cancelled as an error.
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class GatewayRelay(GatewayConnections):
    """Passes bytes on for a listening socket; connections beyond the limit wait."""

    async def start(self, listening: socket.socket) -> None:
        """Serve what connects."""
        listening.setblocking(False)
        self._start(self._accept(listening))

    async def _accept(self, listening: socket.socket) -> None:
        places = asyncio.Semaphore(CONNECTIONS)
        with listening:
            while True:
                await places.acquire()
                try:
                    connection, _ = await asyncio.get_running_loop().sock_accept(listening)
                except OSError:
                    # The system has no place for it now.
                    places.release()
                    await asyncio.sleep(0.5)
                else:
                    self._start(self._pass_on(connection, places))

    async def _pass_on(self, connection: socket.socket, places: asyncio.Semaphore) -> None:
        writers: list[asyncio.StreamWriter] = []
        assert self._address is not None  # it was started
        try:
            reader, writer = await asyncio.open_connection(sock=connection)
            writers.append(writer)
            there, back = await asyncio.open_connection(*self._address)
            writers.append(back)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        except OSError:
            # The program sees the end of its connection.
            pass
        finally:
            for writer in writers:
                writer.close()
            places.release()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
