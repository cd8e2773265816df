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
"""At a time, for all programs of a sandbox; further ones wait. Each takes two file descriptors of the run."""
PAUSE_S = 0.5
"""Before another connection is tried when the system has no room for one."""
INSIDE = 8000
"""The port inside, where the gateway's own is one that only root may open."""


class GatewayRelay:
    """Passes bytes between a listening socket and one address. Belongs to one event loop."""

    def __init__(self, url: str) -> None:
        """Raises `ServiceUnavailable` for a URL that cannot be relayed."""
        parts = urlsplit(url)
        if parts.scheme != "http" or parts.hostname is None:
            raise ServiceUnavailable(
                f"{url}: a sandbox without a network reaches a gateway by http only; remove gateway.public_url, or choose "
                "another sandbox (astuner.sandbox.type)"
            )
        self._host, self._port = parts.hostname, parts.port or 80
        self.port = self._port if self._port >= 1024 else INSIDE
        """The port inside."""
        self.url = SplitResult("http", f"127.0.0.1:{self.port}", parts.path, parts.query, "").geturl()
        """The same address as programs inside reach it."""
        self._places = asyncio.Semaphore(CONNECTIONS)
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listening: socket.socket) -> None:
        """Serve what connects."""
        listening.setblocking(False)
        self._start(self._accept(listening))

    async def close(self) -> None:
        """Close all connections."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        # asyncio's own server reports the end of a task that was cancelled as an error.
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                await self._places.acquire()
                try:
                    connection, _ = await loop.sock_accept(listening)
                except OSError:
                    # The system has no place for it now.
                    self._places.release()
                    await asyncio.sleep(PAUSE_S)
                    continue
                self._start(self._pass_on(connection))

    async def _pass_on(self, connection: socket.socket) -> None:
        writers: list[asyncio.StreamWriter] = []
        try:
            reader, writer = await asyncio.open_connection(sock=connection)
            writers.append(writer)
            there, back = await asyncio.open_connection(self._host, self._port)
            writers.append(back)
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        except OSError:
            # The program sees the end of its connection.
            pass
        finally:
            for writer in writers:
                writer.close()
            self._places.release()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
