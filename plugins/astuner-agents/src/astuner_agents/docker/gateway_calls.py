"""The gateway's side of the relay in a container: one connection to the gateway for each in the container."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from astuner_agents.docker.attached_process import STDOUT, AttachedProcess
from astuner_agents.docker.container import RELAY_PORT
from astuner_agents.sandboxes.gateway_relay import CHUNK, CONNECTIONS, GatewayConnections

HEADER = 8
WAITING = 16
"""Frames that wait for a connection; then the others wait too."""


class GatewayCalls(GatewayConnections):
    """Passes on what the relay in a container receives; connections beyond the limit are ended."""

    def __init__(self, url: str | None) -> None:
        """Raises `ServiceUnavailable` for a URL that cannot be relayed; None passes nothing on."""
        super().__init__(url, RELAY_PORT)
        self._relay: AttachedProcess | None = None
        self._queues: dict[int, asyncio.Queue[bytes]] = {}
        self._ended: set[int] = set()

    def start(self, relay: AttachedProcess) -> None:
        """Pass on in the background what the relay of a container receives."""
        self._relay = relay
        self._start(self._serve(relay))

    async def close(self) -> None:
        """End all connections."""
        await super().close()
        if self._relay is not None:
            self._relay.close()

    async def _serve(self, relay: AttachedProcess) -> None:
        held = bytearray()
        while (frame := await relay.read()) is not None:
            stream, data = frame
            if stream != STDOUT:
                continue
            held += data
            while len(held) >= HEADER and len(held) >= HEADER + (size := int.from_bytes(held[4:HEADER], "big")):
                number, payload = int.from_bytes(held[:4], "big"), bytes(held[HEADER : HEADER + size])
                del held[: HEADER + size]
                await self._deliver(number, payload)

    async def _deliver(self, number: int, payload: bytes) -> None:
        # In any order: a program may open a connection and use it later. What comes for one that has ended is dropped.
        if number not in self._queues and number not in self._ended:
            if len(self._queues) >= CONNECTIONS:
                self._ended.add(number)
                await self._write(number, b"")
                return
            self._queues[number] = asyncio.Queue(WAITING)
            self._start(self._pass_on(number, self._queues[number]))
        queue = self._queues.get(number)
        if queue is not None:
            await queue.put(payload)

    async def _pass_on(self, number: int, queue: asyncio.Queue[bytes]) -> None:
        writer: asyncio.StreamWriter | None = None
        try:
            if self._address is not None:
                reader, writer = await asyncio.open_connection(*self._address)
                await asyncio.gather(self._send(queue, writer), self._receive(number, reader))
        except OSError:
            # The program sees the end of its connection.
            await self._write(number, b"")
        finally:
            # What comes later is not waited for.
            self._queues.pop(number, None)
            self._ended.add(number)
            while not queue.empty():
                queue.get_nowait()
            if writer is None:
                await self._write(number, b"")
            else:
                writer.close()

    async def _send(self, queue: asyncio.Queue[bytes], writer: asyncio.StreamWriter) -> None:
        # To the end, also of what the gateway does not take any more: frames of other connections come after these.
        while data := await queue.get():
            with suppress(OSError):
                writer.write(data)
                await writer.drain()
        with suppress(OSError):
            writer.write_eof()

    async def _receive(self, number: int, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._write(number, data)
        await self._write(number, b"")

    async def _write(self, number: int, data: bytes) -> None:
        assert self._relay is not None  # it was started
        await self._relay.write(number.to_bytes(4, "big") + len(data).to_bytes(4, "big") + data)
