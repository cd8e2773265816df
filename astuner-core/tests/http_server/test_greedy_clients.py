"""What one connection may ask for, and leave unread, is bounded. Requests, bytes and connections are counted here, not time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from astuner.model.http_server import ServerLimits, listen, make_server
from astuner.model.http_server.hosts import Receive, Scope, Send

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = ASK[:-2] + b"Connection: close\r\n\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
MEGABYTE = 1 << 20


class Echo:
    """Answers with the path and the size of the body, and keeps what it was asked."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.received = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size, more = size + len(message.get("body", b"")), message.get("more_body", False)
            self.received += len(message.get("body", b""))
        await answer(send, f"[{scope['path']} {size}]".encode())


class Waiting(Echo):
    """Answers nothing before `may_answer` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        await receive()
        if (await receive())["type"] == "http.disconnect":
            self.left.set()


async def answer(send: Send, body: bytes) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


async def answer_at_length(scope: Scope, receive: Receive, send: Send) -> None:
    await answer(send, bytes(4 * MEGABYTE))


class Served:
    """A server that is running."""

    def __init__(self, app: Any, **limits: Any) -> None:
        self.app = app
        known = {"headers_timeout_s": 60.0, "body_timeout_s": 60.0}
        self.server = make_server(app, ServerLimits(**{**known, **limits}), name="test")
        self._listening = listen("127.0.0.1", 0)
        self._serving = asyncio.create_task(self.server.serve(sockets=[self._listening]))

    def connect(self) -> socket.socket:
        client = socket.create_connection(self._listening.getsockname())
        client.setblocking(False)
        return client

    async def talk(self, *parts: bytes) -> bytes:
        """Send, and return all that comes back until the server closes the connection."""
        loop, found = asyncio.get_running_loop(), b""
        with self.connect() as client, suppress(ConnectionError):
            sending = asyncio.create_task(send_parts(client, parts))
            while part := await loop.sock_recv(client, 1 << 16):
                found += part
            sending.cancel()
        return found

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.01)

    async def end(self) -> None:
        self.server.should_exit = True
        async with asyncio.timeout(60):
            await self._serving

    @property
    def connections(self) -> set[Any]:
        found: set[Any] = self.server.server_state.connections
        return found


async def send_parts(client: socket.socket, parts: tuple[bytes, ...]) -> None:
    with suppress(OSError):
        for part in parts:
            await asyncio.get_running_loop().sock_sendall(client, part)


@asynccontextmanager
async def served(app: Any, **limits: Any) -> AsyncIterator[Served]:
    running = Served(app, **limits)
    yield running
    await running.end()


@pytest.mark.asyncio
async def test_a_few_requests_in_one_piece_are_answered_in_order() -> None:
    post = b"POST /%d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + bytes(100_000)
    async with served(Echo()) as here:
        found = await here.talk(b"".join(post.replace(b"%d", b"%d" % number) for number in range(5)) + LAST)
    assert [part.partition(b"]")[0] for part in found.split(b"[")[1:]] == [b"/%d 100000" % n for n in range(5)] + [b"/ 0"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "request_bytes",
    [
        ASK,
        b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
        CHUNKED + b"\r\n1\r\na\r\n0\r\nA: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"A:\r\n" * 500 + b"\r\n",
    ],
    ids=["plain", "body", "chunked", "headers"],
)
async def test_at_most_sixteen_requests_wait(request_bytes: bytes) -> None:
    waiting, longest = Waiting(), []
    async with served(waiting) as here:
        held = [here.connect() for _ in range(40)]
        for client in held:
            with suppress(OSError):
                client.send(request_bytes * (MEGABYTE // len(request_bytes)))
        await here.until(lambda: len(waiting.scopes) == 40)
        longest += [len(connection.pipeline) for connection in here.connections]
        await here.until(lambda: not here.connections)
        for client in held:
            client.close()
    assert len(waiting.scopes) == 40
    assert max(longest, default=0) <= 16


@pytest.mark.asyncio
async def test_requests_behind_an_answer_that_is_not_read_are_not_begun() -> None:
    begun = []

    async def count(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope)
        await answer_at_length(scope, receive, send)

    async with served(count, unread_timeout_s=0.1) as here:
        client = here.connect()
        client.send(ASK * 10)
        await here.until(lambda: bool(begun))
        await here.until(lambda: not here.connections)
        client.close()
    # The first answer waits for the client in one piece, the second one for that.
    assert len(begun) == 2


@pytest.mark.asyncio
async def test_an_answer_that_nobody_reads_is_given_up() -> None:
    async with served(answer_at_length, unread_timeout_s=0.1) as here:
        client = here.connect()
        client.send(ASK)
        await here.until(lambda: bool(here.connections))
        await here.until(lambda: not here.connections)
        client.close()


@pytest.mark.asyncio
async def test_an_answer_that_is_read_slowly_is_given_to_its_end() -> None:
    async with served(answer_at_length, unread_timeout_s=0.2) as here:
        with here.connect() as client:
            client.send(LAST)
            size = 0
            while part := await asyncio.get_running_loop().sock_recv(client, 1 << 17):
                size += len(part)
                await asyncio.sleep(0.01)
    assert size > 4 * MEGABYTE


@pytest.mark.asyncio
async def test_the_server_ends_while_answers_are_not_read(caplog: pytest.LogCaptureFixture) -> None:
    here = Served(answer_at_length)
    held = [here.connect() for _ in range(40)]
    for client in held:
        client.send(ASK * 3)
    await here.until(lambda: sum(connection.flow.write_paused for connection in here.connections) == 40)
    await here.end()
    assert not here.connections
    assert not here.server.server_state.tasks
    assert not caplog.records
    for client in held:
        client.close()


@pytest.mark.asyncio
async def test_the_request_that_is_answered_hears_that_its_client_has_left() -> None:
    waiting = Waiting()
    async with served(waiting) as here:
        client = here.connect()
        client.send(ASK * 3)
        await here.until(lambda: len(waiting.scopes) == 1)
        client.close()
        await here.until(waiting.left.is_set)
    assert len(waiting.scopes) == 1


@pytest.mark.asyncio
async def test_trailers_are_not_headers() -> None:
    echo = Echo()
    async with served(echo) as here:
        await here.talk(CHUNKED + b"\r\n3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\n\r\n" + LAST)
    assert echo.received == 3
    assert [name for name, _ in echo.scopes[0]["headers"]] == [b"host", b"transfer-encoding"]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"A: " + b"b" * 65_000, 200),
        (b"A: " + b"b" * 66_000, 431),
        (b"A: " + b"b" * 1000 + b"\r\n" + b"B: " + b"b" * 65_000, 431),
        (b"A:\r\n" * 1000 + b"A:", 200),
        (b"A:\r\n" * 3000 + b"A:", 431),
    ],
    ids=["within", "over", "together", "many", "too many"],
)
async def test_headers_in_one_piece_have_the_same_limit(sent: bytes, status: int) -> None:
    async with served(Echo()) as here:
        found = await here.talk(LAST[:-2] + sent + b"\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 %d " % status)
    assert found.count(b"HTTP/1.1") == 1


@pytest.mark.asyncio
async def test_headers_of_requests_that_wait_count_together() -> None:
    async with served(Waiting()) as here:
        assert await here.talk((ASK[:-2] + b"A: " + b"b" * 20_000 + b"\r\n\r\n") * 5) == b""


@pytest.mark.asyncio
async def test_a_body_of_many_chunks_is_taken() -> None:
    echo = Echo()
    async with served(echo) as here:
        small, large = b"1\r\na\r\n" * 3000, (b"1000\r\n" + bytes(4096) + b"\r\n") * 500
        await here.talk(CHUNKED + b"\r\n" + small + large + b"0\r\n\r\n" + LAST)
    assert echo.received == 3000 + 500 * 4096


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "sent",
    [b"1\r\na\r\n" * 100_000, b"5;" + b"a" * MEGABYTE, b"0\r\nA: " + b"b" * MEGABYTE, b"0\r\n" + b"A: b\r\n" * 100_000],
    ids=["chunks", "extension", "trailer", "trailers"],
)
async def test_what_frames_a_body_has_a_limit(sent: bytes) -> None:
    echo = Echo()
    async with served(echo) as here:
        found = await here.talk(CHUNKED + b"\r\n", sent)
    assert echo.received < 10_000
    assert b" 200 " not in found


@pytest.mark.asyncio
async def test_an_upgrade_is_answered_as_the_last_request() -> None:
    echo = Echo()
    async with served(echo) as here:
        found = await here.talk(ASK[:-2] + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n" + ASK, ASK)
    assert found.startswith(b"HTTP/1.1 200 ")
    assert len(echo.scopes) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("behind", [b"GARBAGE\r\n\r\n", ASK[:-2] + b"A: " + b"b" * 70_000 + b"\r\n\r\n"])
async def test_a_refusal_does_not_stand_where_an_answer_is_due(behind: bytes) -> None:
    async with served(Waiting()) as here:
        assert await here.talk(ASK + behind) == b""


@pytest.mark.asyncio
async def test_empty_lines_are_not_waited_behind() -> None:
    async with served(Echo(), headers_timeout_s=0.1) as here:
        client, loop = here.connect(), asyncio.get_running_loop()
        client.send(ASK)
        assert (await loop.sock_recv(client, 1000)).startswith(b"HTTP/1.1 200 ")
        client.send(b"\r\n")
        await here.until(lambda: not here.connections)
        client.close()


@pytest.mark.asyncio
async def test_a_body_that_the_application_does_not_take_yet_is_not_late() -> None:
    may_read = asyncio.Event()

    async def read_later(scope: Scope, receive: Receive, send: Send) -> None:
        await may_read.wait()
        await Echo()(scope, receive, send)

    async with served(read_later, body_timeout_s=0.05) as here:
        asyncio.get_running_loop().call_later(0.3, may_read.set)
        head = LAST.replace(b"GET", b"POST")[:-2] + b"Content-Length: %d\r\n\r\n" % (16 * MEGABYTE)
        found = await here.talk(head, bytes(16 * MEGABYTE))
    assert b"[/ 16777216]" in found


def test_uvicorn_has_the_parts_that_the_limits_use() -> None:
    used = {
        HttpToolsProtocol: "connection_made connection_lost data_received on_message_begin on_url on_header on_headers_complete "
        "on_body on_message_complete on_response_complete pause_writing resume_writing send_400_response shutdown",
        HttpToolsProtocol.__init__: "loop parser transport flow pipeline cycle scope",
        RequestResponseCycle.__init__: "disconnected keep_alive message_event response_started",
    }
    for owner, names in used.items():
        known = getattr(owner, "__code__", None)
        missing = [name for name in names.split() if not (name in known.co_names if known else name in vars(owner))]
        assert not missing, f"uvicorn has other names now: {missing} of {owner}"
