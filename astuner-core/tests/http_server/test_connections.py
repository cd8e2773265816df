"""A client that does not get on with its request is cut off; one that does is served, however long its answer takes."""

from __future__ import annotations

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from astuner.model.http_server import ServerLimits, listen, make_server
from astuner.model.http_server.hosts import Receive, Scope, Send

Reader, Writer = asyncio.StreamReader, asyncio.StreamWriter
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: "


async def echo_length(scope: Scope, receive: Receive, send: Send) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    body = str(size).encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served(app: Any = echo_length, **limits: Any) -> AsyncIterator[tuple[str, int]]:
    known = {"headers_timeout_s": 60.0, "body_timeout_s": 60.0}
    server, listening = make_server(app, ServerLimits(**{**known, **limits}), name="test"), listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    address = listening.getsockname()
    yield address
    server.should_exit = True
    await serving


async def send_and_read(address: tuple[str, int], *parts: bytes) -> bytes:
    """Return all that comes back until the server closes the connection."""
    reader, writer = await asyncio.open_connection(*address)
    for part in parts:
        writer.write(part)
        await writer.drain()
    found = await read_to_end(reader)
    writer.close()
    return found


async def read_to_end(reader: Reader) -> bytes:
    found = b""
    # A connection that is closed while the client still sends is reset.
    with suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            found += part
    return found


@pytest.mark.asyncio
@pytest.mark.parametrize("sent", [b"", b"POST /v1/ch", b"GET / HTTP/1.1\r\nA: b\r\n"])
async def test_a_connection_that_begins_no_request_is_closed(sent: bytes) -> None:
    async with served(headers_timeout_s=0.05) as address:
        assert await send_and_read(address, sent) == b""


@pytest.mark.asyncio
async def test_headers_that_come_drop_by_drop_are_not_waited_for() -> None:
    async with served(headers_timeout_s=0.3) as address:
        reader, writer = await asyncio.open_connection(*address)

        async def drip() -> None:
            writer.write(b"GET / HTTP/1.1\r\n")
            while True:
                writer.write(b"A: b\r\n")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await read_to_end(reader) == b""
        dripping.cancel()
        writer.close()


@pytest.mark.asyncio
async def test_the_second_request_of_a_connection_is_held_to_the_same_limit() -> None:
    async with served(headers_timeout_s=0.3) as address:
        found = await send_and_read(address, ASK, b"GET / HT")
    assert found.count(b"200 OK") == 1


@pytest.mark.asyncio
async def test_a_body_that_stops_is_answered_408() -> None:
    async with served(body_timeout_s=0.05) as address:
        found = await send_and_read(address, POST + b"9\r\n\r\nab")
    assert b" 408 " in found.splitlines()[0]
    assert b"request_timeout" in found


@pytest.mark.asyncio
async def test_a_body_has_a_second_more_for_each_8_kib_of_it() -> None:
    async with served(body_timeout_s=0.3) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(ASK.replace(b"GET", b"POST")[:-2] + b"Connection: close\r\nContent-Length: 819200\r\n\r\n" + bytes(409600))
        await asyncio.sleep(1.5)
        writer.write(bytes(409600))
        found = await read_to_end(reader)
        writer.close()
    assert found.endswith(b"\r\n819200")


@pytest.mark.asyncio
async def test_a_body_of_a_request_that_is_refused_already_is_not_waited_for() -> None:
    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    async with served(refuse, body_timeout_s=0.05) as address:
        found = await send_and_read(address, POST + b"9\r\n\r\nab")
    assert b" 401 " in found.splitlines()[0]


@pytest.mark.asyncio
async def test_headers_that_are_too_large_are_refused() -> None:
    async with served(max_header_bytes=4000) as address:
        found = await send_and_read(address, b"GET / HTTP/1.1\r\n", b"A: " + b"b" * 5000)
    assert b" 431 " in found.splitlines()[0]


@pytest.mark.asyncio
async def test_an_answer_may_take_longer_than_headers_and_bodies() -> None:
    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        for number in range(10):
            await asyncio.sleep(0.05)
            await send({"type": "http.response.body", "body": str(number).encode(), "more_body": number < 9})

    async with served(stream, headers_timeout_s=0.1, body_timeout_s=0.1) as address:
        found = await send_and_read(address, POST + b"2\r\n\r\n", b"ab")
    assert b"".join(found.partition(b"\r\n\r\n")[2].split(b"\r\n")[1::2]) == b"0123456789"


@pytest.mark.asyncio
async def test_an_idle_connection_is_kept() -> None:
    async with served(headers_timeout_s=0.05, body_timeout_s=0.05) as address:
        reader, writer = await asyncio.open_connection(*address)
        for _ in range(3):
            writer.write(POST + b"5\r\n\r\nab")
            await asyncio.sleep(0)
            writer.write(b"cde")
            assert (await reader.readuntil(b"\r\n\r\n5"))[-1:] == b"5"
            await asyncio.sleep(0.2)
        writer.close()


@pytest.mark.asyncio
async def test_a_further_client_is_served_when_all_places_are_taken() -> None:
    async with served(max_connections=4) as address:
        held = [await asyncio.open_connection(*address) for _ in range(10)]
        for _, writer in held[:2]:
            writer.write(b"GET /")
        found = await send_and_read(address, ASK[:-2] + b"Connection: close\r\n\r\n")
        for _, writer in held:
            writer.close()
    assert b"200 OK" in found


@pytest.mark.parametrize(("descriptors", "places"), [(1024, 768), (256, 128), (1, 1), (resource.RLIM_INFINITY, 4096)])
def test_descriptors_are_left_for_everything_else(descriptors: int, places: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (descriptors, descriptors))
    assert ServerLimits().count_places() == places
    assert ServerLimits(max_connections=100).count_places() == min(100, places)


@pytest.mark.asyncio
async def test_an_exhausted_system_is_noted_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = [OSError(24, "Too many open files")] * 3
    loop = asyncio.get_running_loop()
    real = loop.sock_accept

    async def accept(listening: socket.socket) -> Any:
        if failures:
            raise failures.pop()
        return await real(listening)

    monkeypatch.setattr("astuner.model.http_server.server.PAUSE_S", 0)
    monkeypatch.setattr(loop, "sock_accept", accept)
    async with served() as address:
        found = await send_and_read(address, ASK[:-2] + b"Connection: close\r\n\r\n")
    assert b"200 OK" in found
    assert [record.message for record in caplog.records] == [
        "test: no connection can be accepted (Too many open files); raise `ulimit -n`. Clients wait."
    ]


async def wait(scope: Scope, receive: Receive, send: Send) -> None:
    await asyncio.Event().wait()


async def interrupt(scope: Scope, receive: Receive, send: Send) -> None:
    raise KeyboardInterrupt


async def answer_and_interrupt(scope: Scope, receive: Receive, send: Send) -> None:
    await echo_length(scope, receive, send)
    raise KeyboardInterrupt


def test_requests_under_way_end_silently_with_the_event_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def leave_early(body: bytes) -> None:
        serving = served(wait)
        _, writer = await asyncio.open_connection(*await serving.__aenter__())
        writer.write(POST + b"9\r\n\r\n" + body)
        await asyncio.sleep(0.2)

    for body in (b"", b"123456789"):
        asyncio.run(leave_early(body))
    assert caplog.text == ""


@pytest.mark.parametrize("where", ["application", "parser", "answered"])
def test_ctrl_c_in_a_request_ends_the_event_loop(
    where: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_interrupt(protocol: Any) -> None:
        raise KeyboardInterrupt

    async def ask() -> None:
        async with served(answer_and_interrupt if where == "answered" else interrupt) as address:
            await send_and_read(address, ASK)
            await asyncio.sleep(60)

    if where == "parser":
        monkeypatch.setattr(HttpToolsProtocol, "on_message_begin", raise_interrupt)
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(ask())
    assert caplog.text == ""
