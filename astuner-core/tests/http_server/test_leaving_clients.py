"""An application hears once that a client has left before the end of its answer; the head of an answer is sent with its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from astuner.model.http_server import LEAVING, ServerLimits, listen, make_server
from astuner.model.http_server.connections import HeldHeads
from astuner.model.http_server.hosts import Receive, Scope, Send

ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Waiting:
    """Answers with its number, the first request only once `may_answer` is set, and counts the clients that leave."""

    def __init__(self, *, late: bool = False) -> None:
        self.late = late
        self.asked = self.left = 0
        self.heard, self.may_answer = asyncio.Event(), asyncio.Event()

    def hear(self) -> None:
        self.left += 1
        self.heard.set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked += 1
        if not self.late:
            scope["extensions"][LEAVING](self.hear)
        if self.asked == 1:
            await self.may_answer.wait()
        if self.late:
            scope["extensions"][LEAVING](self.hear)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
        await send({"type": "http.response.body", "body": str(self.asked).encode()})


async def talk(app: Waiting, use: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> None:
    server, listening = make_server(app, ServerLimits(), name="test"), listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    reader, writer = await asyncio.open_connection(*listening.getsockname())
    writer.write(ASK)
    while not app.asked:
        await asyncio.sleep(0.001)
    await use(reader, writer)
    writer.close()
    while server.server_state.connections:
        await asyncio.sleep(0.001)
    server.should_exit = True
    await serving


@pytest.mark.asyncio
async def test_a_client_that_leaves_before_its_answer_is_heard_of() -> None:
    app = Waiting()

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await app.heard.wait()
        app.may_answer.set()

    await talk(app, leave)
    assert app.left == 1


@pytest.mark.asyncio
async def test_one_that_has_left_is_heard_of_at_once() -> None:
    app = Waiting(late=True)

    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.abort()
        # The connection is gone before the application asks.
        await asyncio.sleep(0.05)
        app.may_answer.set()
        await app.heard.wait()

    await talk(app, leave)
    assert app.left == 1


@pytest.mark.asyncio
async def test_one_that_leaves_after_its_answers_is_not_heard_of() -> None:
    app = Waiting()

    async def read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        app.may_answer.set()
        assert (await reader.readuntil(b"\r\n\r\n1")).startswith(b"HTTP/1.1 200 ")
        writer.write(ASK)
        assert (await reader.readuntil(b"\r\n\r\n2")).startswith(b"HTTP/1.1 200 ")

    await talk(app, read)
    assert app.left == 0


class Written(SimpleNamespace):
    """A transport that keeps what is sent at a time."""

    def __init__(self) -> None:
        super().__init__(sent=[], is_closing=bool, get_write_buffer_size=int, abort=int)

    def write(self, data: bytes) -> None:
        if data:
            self.sent.append(data)

    def close(self) -> None:
        self.sent.append(None)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ((HEAD, b"body"), [HEAD + b"body"]),
        ((HEAD, b"first", b"second"), [HEAD + b"first", b"second"]),
        ((b"part",), [b"part"]),
        # Two answers without a body.
        ((HEAD, HEAD), [HEAD + HEAD]),
    ],
)
async def test_a_head_is_sent_with_what_follows_it(written: tuple[bytes, ...], sent: list[bytes]) -> None:
    transport = Written()
    held: Any = HeldHeads(transport, asyncio.get_running_loop().call_soon)  # type: ignore[arg-type] # it has what is called
    for data in written:
        held.write(data)
    assert transport.sent == sent
    held.close()
    assert transport.sent == [*sent, None]


@pytest.mark.asyncio
async def test_a_head_alone_is_sent_within_the_step_and_before_the_end() -> None:
    transport = Written()
    held: Any = HeldHeads(transport, asyncio.get_running_loop().call_soon)  # type: ignore[arg-type] # as above
    held.write(HEAD)
    assert transport.sent == []
    await asyncio.sleep(0)
    assert transport.sent == [HEAD]
    held.write(HEAD)
    held.close()
    assert transport.sent == [HEAD, HEAD, None]
