"""Connections from a sandbox without a network to the gateway."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from urllib.parse import SplitResult, urlsplit

from astuner.contract.errors import ServiceUnavailable

CHUNK = 65536
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
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, listening: socket.socket) -> None:
        """Serve what connects."""
        self._server = await asyncio.start_server(self._pass_on, sock=listening)

    async def close(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # a server calls this in a task
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            there, back = await asyncio.open_connection(self._host, self._port)
        except OSError:
            writer.close()
            return
        try:
            await asyncio.gather(_copy(reader, back), _copy(there, writer))
        finally:
            writer.close()
            back.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
