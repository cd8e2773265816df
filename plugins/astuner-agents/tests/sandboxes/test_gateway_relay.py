"""A relay passes bytes on for a bounded number of connections, and ends quietly however busy they are."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from astuner_agents.sandboxes import gateway_relay
from astuner_agents.sandboxes.gateway_relay import GatewayRelay


@asynccontextmanager
async def relayed(serve: Any) -> AsyncIterator[tuple[GatewayRelay, tuple[str, int]]]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    relay = GatewayRelay(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
    listening = socket.create_server(("127.0.0.1", 0))
    await relay.start(listening)
    yield relay, listening.getsockname()
    await relay.close()
    server.close()


async def until(holds: Any) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.01)


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.close()


@pytest.mark.asyncio
async def test_bytes_pass_in_both_directions_to_the_end() -> None:
    async with relayed(echo) as (_, address):
        reader, writer = await asyncio.open_connection(*address)
        writer.write(bytes(3 << 20))
        writer.write_eof()
        assert len(await reader.read()) == 3 << 20
        writer.close()


@pytest.mark.asyncio
async def test_connections_beyond_the_limit_wait_for_a_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_relay, "CONNECTIONS", 3)
    reached = []

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.readexactly(1))
        await echo(reader, writer)

    async with relayed(count) as (_, address):
        clients = [await asyncio.open_connection(*address) for _ in range(10)]
        for _, writer in clients:
            writer.write(b"x")
        await until(lambda: len(reached) == 3)
        for number, (_, writer) in enumerate(clients):
            assert len(reached) <= 3 + number
            writer.close()
        await until(lambda: len(reached) == 10)


@pytest.mark.asyncio
async def test_a_gateway_that_is_gone_ends_the_connection() -> None:
    async with relayed(echo) as (relay, address):
        relay._address = "127.0.0.1", 1
        reader, writer = await asyncio.open_connection(*address)
        assert await reader.read() == b""
        writer.close()


@pytest.mark.asyncio
async def test_a_busy_relay_ends_without_a_word(caplog: pytest.LogCaptureFixture) -> None:
    said: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: said.append(context))
    held = []

    async def never_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    async with relayed(never_read) as (relay, address):
        clients = [await asyncio.open_connection(*address) for _ in range(5)]
        for _, writer in clients:
            writer.write(bytes(32 << 20))
        await until(lambda: len(held) == 5)
        await relay.close()
        await asyncio.sleep(0.05)
        for writer in [*held, *(writer for _, writer in clients)]:
            writer.transport.abort()
    assert not said
    assert not caplog.records
