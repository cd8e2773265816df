"""The programs that pass calls of a container on to the gateway, each with its real interpreter."""

from __future__ import annotations

import asyncio
import hashlib
import random
import shutil
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest

from astuner.contract.errors import ServiceUnavailable
from astuner_agents.docker import gateway_calls
from astuner_agents.docker.attached_process import STDOUT, AttachedProcess
from astuner_agents.docker.container import read_program
from astuner_agents.docker.gateway_calls import GatewayCalls

RELAYS = {"python3": ("-I", "-S", "-c", read_program("relay.py")), "node": ("-e", read_program("relay.js"))}


class Piped(AttachedProcess):
    """A relay that runs here."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        super().__init__(process.stdout, process.stdin)
        self._out = process.stdout

    async def read(self) -> tuple[int, bytes] | None:
        data = await self._out.read(100_000)
        return (STDOUT, data) if data else None


@pytest.fixture(params=list(RELAYS))
def relay(request: pytest.FixtureRequest) -> tuple[str, ...]:
    program = sys.executable if request.param == "python3" else shutil.which(request.param)
    if program is None:
        pytest.skip(f"there is no {request.param}")
    return (program, *RELAYS[request.param])


def play(relay: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, serve: Any, work: Any) -> Any:
    async def run() -> Any:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        probe = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = probe.sockets[0].getsockname()[1]
        probe.close()
        await probe.wait_closed()
        monkeypatch.setattr(gateway_calls, "RELAY_PORT", port)
        pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
        process = await asyncio.create_subprocess_exec(*relay, str(port), **pipes)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"
        calls = GatewayCalls(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1?a=b")
        assert calls.url == f"http://127.0.0.1:{port}/v1?a=b"
        calls.start(Piped(process))
        try:
            return await asyncio.wait_for(work(urlsplit(calls.url).port), 60)
        finally:
            await calls.close()
            await process.wait()
            server.close()

    return asyncio.run(run())


def test_many_connections_carry_what_was_sent(relay: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()
        writer.write(hashlib.sha256(data).digest() + data)
        await writer.drain()
        writer.close()

    async def call(port: int, data: bytes) -> bool:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        writer.write_eof()
        answer = await reader.read()
        writer.close()
        return answer == hashlib.sha256(data).digest() + data

    sizes = [0, 1, 65536, 65537, 3_000_000, *(random.Random(1).randrange(100_000) for _ in range(40))]

    async def work(port: int) -> list[bool]:
        return list(await asyncio.gather(*(call(port, random.Random(size).randbytes(size)) for size in sizes)))

    assert all(play(relay, monkeypatch, serve, work))


def test_a_program_that_hangs_up_ends_its_call_alone(relay: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        await writer.drain()
        ended.append(await reader.read())
        writer.close()

    async def work(port: int) -> bytes:
        first, second = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in (first, second):
            writer.write(b"x")
        assert [await reader.readexactly(1) for reader, _ in (first, second)] == [b"x", b"x"]
        first[1].transport.abort()
        while not ended:
            await asyncio.sleep(0.01)
        second[1].write(b"more")
        second[1].write_eof()
        await second[0].read()
        return b"".join(ended)

    assert play(relay, monkeypatch, serve, work) == b"more"


def test_without_a_gateway_a_connection_ends(relay: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()

    async def work(port: int) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        answer = await reader.read()
        writer.close()
        return answer

    assert play(relay, monkeypatch, refuse, work) == b""


def test_a_gateway_with_tls_cannot_be_relayed() -> None:
    with pytest.raises(ServiceUnavailable, match=r"reaches a gateway by http only; remove gateway\.public_url"):
        GatewayCalls("https://gateway.example/v1")


def test_connections_beyond_the_limit_end(relay: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_calls, "CONNECTIONS", 2)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1))
        await reader.read()
        writer.close()

    async def work(port: int) -> list[bytes]:
        clients, found = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)], []
        for reader, writer in clients:
            writer.write(b"x")
            found.append(await reader.read(1))
        for _, writer in clients:
            writer.close()
        return found

    assert play(relay, monkeypatch, serve, work) == [b"x", b"x", b""]
