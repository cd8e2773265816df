"""Connections that are closed if a client does not get on with its request or does not read its answer; uvicorn's wait for ever.

Requests that are too large are refused, and as soon as too many wait, none is read any more.
"""

from __future__ import annotations

import asyncio
import json
import math
import resource
import sys
from collections.abc import Callable
from typing import Any

from attrs import field, frozen
from attrs.validators import gt

from astuner.model.http_server.hosts import describe_refusal

FIELD_BYTES = 32
"""What a header counts beyond its text, as in HTTP/2 (RFC 9113, 6.5.2): thousands of empty ones take memory too."""
CHUNK_BYTES = 16
"""What a chunk counts among the headers."""
BODY_SHARE = 8
"""A body may have one byte of chunk headers and trailers for so many of its own, beyond `max_header_bytes`."""

SLOWEST_BYTES = 8 << 10
"""Bytes per second, on average, that a client has to send of a body beyond `body_timeout_s`, and to read of an answer."""

LEAVING = "astuner.leaving"
"""The extension, in the scope, that takes a function to call if the client leaves before the end of its answer."""
DROPPING = "astuner.dropping"
"""The extension that is called to end the connection without an answer."""


@frozen(kw_only=True)
class ServerLimits:
    """The limits of one server. Giving an answer is not limited: a stream may take as long as it takes."""

    headers_timeout_s: float = field(default=10.0, validator=gt(0))
    """A connection whose first request, or any request that has begun, is not past its headers by then is closed."""
    body_timeout_s: float = field(default=30.0, validator=gt(0))
    """A request whose body is not complete by then is answered 408; large bodies get more time, by `SLOWEST_BYTES`."""
    max_header_bytes: int = field(default=64 << 10, validator=gt(0))
    """Larger headers are answered 431. Each counts 32 bytes beyond its text; those of requests that wait count together."""
    max_waiting: int = field(default=16, validator=gt(0))
    """Requests that a connection may send before an earlier one is answered; at one more it is closed."""
    unread_timeout_s: float = field(default=30.0, validator=gt(0))
    """A connection whose client reads nothing of an answer for so long, or less than `SLOWEST_BYTES`, is closed."""
    max_connections: int = field(default=4096, validator=gt(0))
    """Connections at a time; further clients wait, and idle connections give way to them."""
    idle_timeout_s: int = field(default=600, validator=gt(0))
    """An idle connection is closed after this time. Clients drop theirs after seconds; a server that closes first, just as
    the next request arrives, loses that request."""

    def count_places(self) -> int:
        """Return how many connections may be open: part of the file descriptors is left for everything else."""
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if most == resource.RLIM_INFINITY:
            return self.max_connections
        return max(1, min(self.max_connections, max(most // 2, most - 256)))


class HeldHeads:
    """A transport that sends the head of an answer together with what is written next in the same step of the event loop."""

    def __init__(self, transport: asyncio.Transport, call_soon: Callable[..., object]) -> None:
        """`call_soon` is the event loop's."""
        self._transport, self._call_soon, self._held = transport, call_soon, b""
        self.abort, self.is_closing = transport.abort, transport.is_closing
        self.get_write_buffer_size = transport.get_write_buffer_size

    def write(self, data: bytes) -> None:
        """Send data, a head at the end of this step at the latest."""
        if not self._held and data.startswith(b"HTTP/1.1 "):
            self._held = data
            self._call_soon(self.write, b"")
        else:
            data, self._held = self._held + data, b""
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection once everything is sent."""
        self.write(b"")
        self._transport.close()


def make_protocol(limits: ServerLimits) -> Any:
    """Return uvicorn's protocol, held to the limits."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Connection(HttpToolsProtocol):
        reads_head = False
        """Whether the headers of a request have begun, and are not complete."""
        reads_body = False
        """Whether the headers of a request are complete, and its body is not."""
        answered: Any = None
        """Of the requests that uvicorn has taken, the one that the application answers now."""
        _deadline = math.inf
        begun: float
        """The time at which the headers or the body began that are being read; else that of the last answer, or of the start."""
        _head_bytes: int = 0
        """Of URL, headers, chunk headers and trailers of all requests that are not answered."""
        _body_bytes: int = 0
        _unparsed: int = 0
        """Bytes of headers, and of a body in which nothing was found: the parser keeps a field whose end has not come."""
        _unread: int = 0
        """Bytes of an answer that the client has still to take, when that was looked at last."""
        _unread_deadline = math.inf
        _leave: Callable[[], object] | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
            super().connection_made(transport)
            self.transport: Any = HeldHeads(transport, self.loop.call_soon)
            # `pause_writing` is called as soon as the system takes no more.
            transport.set_write_buffer_limits(0)
            self.begun = self.loop.time()
            self._deadline = self.begun + limits.headers_timeout_s

        def connection_lost(self, exc: Exception | None) -> None:
            if self.answered is not None:
                # By itself, uvicorn reports it to the request that came last.
                self.answered.disconnected = True
                self.answered.message_event.set()
                if self._leave is not None:
                    self._leave()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            cycle, read_body, counted = self.cycle, self.reads_body, self._head_bytes + self._body_bytes
            super().data_received(data)
            is_stuck = self._head_bytes + self._body_bytes == counted if read_body else self.reads_head
            self._unparsed = self._unparsed + len(data) if is_stuck and self.cycle is cycle else 0
            if self._unparsed > limits.max_header_bytes:
                self._refuse_head()
            elif self.reads_body:
                self._deadline = self.begun + limits.body_timeout_s + self._body_bytes / SLOWEST_BYTES
            elif self.answered is not None:
                # The time of a request that follows another one begins with the answer to that.
                self._deadline = math.inf
            else:
                self._deadline = self.begun + limits.headers_timeout_s

        def on_message_begin(self) -> None:
            if len(self.pipeline) >= limits.max_waiting:
                self.transport.close()
                raise ValueError("stops the parser")
            if self.answered is None:
                self.begun, self._head_bytes = self.loop.time(), 0
            self.reads_head, self._body_bytes = True, 0
            super().on_message_begin()
            self.scope["extensions"] = {LEAVING: self._watch, DROPPING: self._drop}  # type: ignore[dict-item]  # functions

        def on_header(self, name: bytes, value: bytes) -> None:
            self._count_head(len(name) + len(value) + FIELD_BYTES)
            # Trailers come after the application has decided on the headers; none of ours reads them.
            if self.reads_head:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            self._count_head(len(self.url))
            super().on_headers_complete()
            self.answered = self.answered or self.cycle
            self.reads_head, self.reads_body, self.begun = False, True, self.loop.time()
            if self.parser.should_upgrade():
                # What follows would be another protocol's.
                self.cycle.keep_alive = False

        def on_chunk_header(self) -> None:
            self._count_head(CHUNK_BYTES)

        def on_body(self, body: bytes) -> None:
            self._body_bytes += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            self.reads_body = False
            super().on_message_complete()

        def on_response_complete(self) -> None:
            self.begun = self.loop.time()
            self.answered, self._leave = self.pipeline[-1][0] if self.pipeline else None, None
            super().on_response_complete()
            if self.reads_head and self.answered is None:
                self._deadline = self.begun + limits.headers_timeout_s

        def pause_writing(self) -> None:
            super().pause_writing()
            self._limit_unread()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread_deadline = math.inf

        def send_400_response(self, msg: str) -> None:
            # The parser turns all that is raised in the functions above into an error of its own.
            if isinstance(interrupt := getattr(sys.exception(), "__context__", None), KeyboardInterrupt):
                raise interrupt
            self._refuse("400 Bad Request", msg)

        def _count_head(self, size: int) -> None:
            self._head_bytes += size
            if self._head_bytes > limits.max_header_bytes + self._body_bytes // BODY_SHARE:
                self._refuse_head()
                raise ValueError("stops the parser")

        def check(self, now: float) -> None:
            """Close the connection if its client is late; the server calls this a few times a second."""
            if now >= self._unread_deadline:
                if self.transport.get_write_buffer_size() > self._unread - limits.unread_timeout_s * SLOWEST_BYTES:
                    self.transport.abort()
                self._limit_unread()
            elif now >= self._deadline and not self.transport.is_closing():
                if self.reads_body and self.flow.read_paused:
                    # It is this side that does not get on.
                    self._deadline = now + limits.body_timeout_s
                elif self.reads_body:
                    self._refuse("408 Request Timeout", f"the body was not here after {self._deadline - self.begun:.0f} s")
                else:
                    self.transport.close()

        def _watch(self, leave: Callable[[], object]) -> None:
            self._leave = leave
            if self.answered is None or self.answered.disconnected:
                leave()

        def _drop(self) -> None:
            if self.answered is not None:
                self.answered.disconnected = True
            self.transport.abort()

        def _limit_unread(self) -> None:
            self._unread = self.transport.get_write_buffer_size()
            self._unread_deadline = self.loop.time() + limits.unread_timeout_s

        def _refuse_head(self) -> None:
            self._refuse("431 Request Header Fields Too Large", f"headers have at most {limits.max_header_bytes} bytes")

        def _refuse(self, status: str, text: str) -> None:
            """Close the connection; the request that is being read is answered if it is its turn."""
            if self.transport.is_closing():
                return
            refused = self.cycle if self.reads_body else None
            if self.answered is refused and not (refused and refused.response_started):
                body = json.dumps(describe_refusal(text, status[4:].lower().replace(" ", "_")))
                head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
                self.transport.write(f"{head}\r\n\r\n{body}".encode())
            self.transport.close()

    return Connection
