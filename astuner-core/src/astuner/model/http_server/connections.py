"""Connections that are closed if a client does not get on with its request or does not read its answer; uvicorn's wait for ever.

Requests that are too large are refused, and as soon as too many wait, none is read any more.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

from astuner.model.http_server.hosts import describe_refusal
from astuner.model.http_server.limits import SLOWEST_BYTES, ServerLimits

FIELD_BYTES = 32
"""What a header counts beyond its text, as in HTTP/2 (RFC 9113, 6.5.2): thousands of empty ones take memory too."""
CHUNK_BYTES = 8
"""What a chunk counts among the headers."""
BODY_SHARE = 8
"""A body may have one byte of chunk headers and trailers for so many of its own, beyond `max_header_bytes`."""


class Refused(Exception):
    """Stops the parser."""


def make_protocol(limits: ServerLimits, left: Callable[[], None]) -> Any:
    """Return uvicorn's protocol, held to the limits; `left` is called at the end of each connection."""
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

    class Connection(HttpToolsProtocol):
        """The server calls `check` a few times a second."""

        reads_head = False
        """Whether the headers of a request have begun, and are not complete."""
        reads_body = False
        """Whether the headers of a request are complete, and its body is not."""
        idle_since: float
        """The time of the connection, or of the last answer."""
        _answered: Any = None
        """Of the requests that uvicorn has taken, the one that the application answers now."""
        _deadline = math.inf
        _begun: float = 0.0
        """The time at which the headers or the body began that are being read."""
        _head_bytes: int = 0
        """Of URL, headers, chunk headers and trailers of all requests that are not answered."""
        _body_bytes: int = 0
        _unparsed: int = 0
        """Bytes of headers, and of a body in which nothing was found: the parser keeps a field whose end has not come."""
        _unread: int = 0
        """Bytes of an answer that the client has still to take, when that was looked at last."""
        _unread_deadline = math.inf

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
            super().connection_made(transport)
            # `pause_writing` is called as soon as the system takes no more.
            transport.set_write_buffer_limits(0)
            self.idle_since = self._begun = self.loop.time()
            self._deadline = self._begun + limits.headers_timeout_s

        def connection_lost(self, exc: Exception | None) -> None:
            if self._answered is not None:
                # By itself, uvicorn reports it to the request that came last.
                self._answered.disconnected = True
                self._answered.message_event.set()
            super().connection_lost(exc)
            left()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            cycle, read_body, counted = self.cycle, self.reads_body, self._head_bytes + self._body_bytes
            super().data_received(data)
            if self.cycle is cycle and (self._head_bytes + self._body_bytes == counted if read_body else self.reads_head):
                self._unparsed += len(data)
            else:
                self._unparsed = 0
            if self._unparsed > limits.max_header_bytes:
                self._refuse_head()
            elif self.reads_body:
                self._deadline = self._begun + limits.body_timeout_s + self._body_bytes / SLOWEST_BYTES
            elif self.is_answering:
                # The time of a request that follows another one begins with the answer to that.
                self._deadline = math.inf
            else:
                self._deadline = self._begun + limits.headers_timeout_s

        def on_message_begin(self) -> None:
            if len(self.pipeline) >= limits.max_waiting:
                self.transport.close()
                raise Refused
            if not self.is_answering:
                self._begun, self._head_bytes = self.loop.time(), 0
            self.reads_head, self._body_bytes = True, 0
            super().on_message_begin()

        def on_url(self, url: bytes) -> None:
            self._head_bytes += len(url)
            super().on_url(url)

        def on_header(self, name: bytes, value: bytes) -> None:
            self._head_bytes += len(name) + len(value) + FIELD_BYTES
            if self._head_bytes > limits.max_header_bytes:
                self._check_head()
            # Trailers come after the application has decided on the headers; none of ours reads them.
            if self.reads_head:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            self._answered = self._answered or self.cycle
            self.reads_head, self.reads_body, self._begun = False, True, self.loop.time()
            if self.parser.should_upgrade():
                # What follows would be another protocol's.
                self.cycle.keep_alive = False

        def on_chunk_header(self) -> None:
            self._head_bytes += CHUNK_BYTES
            self._check_head()

        def on_body(self, body: bytes) -> None:
            self._body_bytes += len(body)
            super().on_body(body)

        def on_message_complete(self) -> None:
            self.reads_body = False
            super().on_message_complete()

        def on_response_complete(self) -> None:
            self.idle_since = self._begun = self.loop.time()
            self._answered = self.pipeline[-1][0] if self.pipeline else None
            super().on_response_complete()
            if self.reads_head and not self.is_answering:
                self._deadline = self._begun + limits.headers_timeout_s

        def pause_writing(self) -> None:
            super().pause_writing()
            self._limit_unread()

        def resume_writing(self) -> None:
            super().resume_writing()
            self._unread_deadline = math.inf

        def send_400_response(self, msg: str) -> None:
            self._refuse("400 Bad Request", msg)

        @property
        def is_answering(self) -> bool:
            return self._answered is not None

        def _check_head(self) -> None:
            if self._head_bytes > limits.max_header_bytes + self._body_bytes // BODY_SHARE:
                self._refuse_head()
                raise Refused

        def check(self, now: float) -> None:
            """Close the connection if its client is late."""
            if now >= self._unread_deadline:
                if self.transport.get_write_buffer_size() > self._unread - limits.unread_timeout_s * SLOWEST_BYTES:
                    self.transport.abort()
                self._limit_unread()
            elif now >= self._deadline and not self.transport.is_closing():
                if self.reads_body and self.flow.read_paused:
                    # It is this side that does not get on.
                    self._deadline = now + limits.body_timeout_s
                elif self.reads_body:
                    self._refuse("408 Request Timeout", f"the body was not here after {self._deadline - self._begun:.0f} s")
                else:
                    self.transport.close()

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
            if self._answered is refused and not (refused and refused.response_started):
                body = json.dumps(describe_refusal(text, status[4:].lower().replace(" ", "_")))
                head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
                self.transport.write(f"{head}\r\n\r\n{body}".encode())
            self.transport.close()

    return Connection
