"""Connections that are closed if they do not get on with their request; uvicorn's own wait for ever."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from astuner.model.http_server.hosts import describe_refusal
from astuner.model.http_server.limits import SLOWEST_BODY, ServerLimits


def make_protocol(limits: ServerLimits, left: Callable[[], None]) -> Any:
    """Return uvicorn's protocol, the quick one where it is installed, held to the limits; `left` is called at each end."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return _make_h11_protocol(limits, left)

    class QuickConnection(_make_bounded(HttpToolsProtocol, limits, left)):  # type: ignore[misc] # made at run time
        reads_head = reads_body = False

        def on_message_begin(self) -> None:
            self.reads_head = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self.reads_head, self.reads_body = False, True
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self.reads_body = False
            super().on_message_complete()

    return QuickConnection


def _make_h11_protocol(limits: ServerLimits, left: Callable[[], None]) -> Any:
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class PlainConnection(_make_bounded(H11Protocol, limits, left)):  # type: ignore[misc] # made at run time
        @property
        def reads_head(self) -> bool:
            return not self.reads_body and bool(self.conn.trailing_data[0])

        @property
        def reads_body(self) -> bool:
            return self.conn.their_state is h11.SEND_BODY

    return PlainConnection


def _make_bounded(base: Any, limits: ServerLimits, left: Callable[[], None]) -> Any:
    class Bounded(base):  # type: ignore[misc] # made at run time
        """Has one timer at most, and none while a request that came at once is answered."""

        reads_head: bool
        """Whether the headers of a request have begun, and are not complete."""
        reads_body: bool
        """Whether the headers of a request are complete, and its body is not."""
        idle_since: float
        """The time of the connection, or of the last answer."""
        _timer: asyncio.TimerHandle | None = None
        _deadline: float | None = None
        _begun: float = 0.0
        """The time at which the headers or the body began that are being read."""
        _head_bytes: int = 0
        _body_bytes: int = 0

        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.idle_since = self._begun = self.loop.time()
            self._limit_to(limits.headers_timeout_s)

        def connection_lost(self, exc: Exception | None) -> None:
            if self._timer is not None:
                self._timer.cancel()
            super().connection_lost(exc)
            left()

        def data_received(self, data: bytes) -> None:
            if self.transport.is_closing():
                return
            known, read_head, read_body = self.cycle, self.reads_head, self.reads_body
            super().data_received(data)
            is_new = self.cycle is not known
            if self.reads_body:
                if is_new:
                    self._begun, self._body_bytes = self.loop.time(), 0
                self._body_bytes += len(data)
                self._limit_to(limits.body_timeout_s + self._body_bytes / SLOWEST_BODY)
            elif self.reads_head:
                if is_new or (known is not None and not read_head):
                    # The data may begin with the end of the previous request, so its size is not counted.
                    self._begun, self._head_bytes = self.loop.time(), 0
                if not is_new and not read_body:
                    self._head_bytes += len(data)
                self._limit_head()
            else:
                self._deadline, self._head_bytes = None, 0

        def on_response_complete(self) -> None:
            self.idle_since = self.loop.time()
            super().on_response_complete()
            if self.reads_head and not self.is_answering:
                self._begun = self.idle_since
                self._limit_head()

        @property
        def is_answering(self) -> bool:
            # None before the first request, despite its annotation.
            return self.cycle is not None and not self.cycle.response_complete

        @property
        def has_asked(self) -> bool:
            """Whether a request ever came."""
            return self.cycle is not None

        def _limit_head(self) -> None:
            if self._head_bytes > limits.max_header_bytes:
                self._refuse("431 Request Header Fields Too Large", f"headers have at most {limits.max_header_bytes} bytes")
            elif self.is_answering:
                # The time of a request that follows another one begins with the answer to that.
                self._deadline = None
            else:
                self._limit_to(limits.headers_timeout_s)

        def _limit_to(self, seconds: float) -> None:
            self._deadline = self._begun + seconds
            if self._timer is not None and self._timer.when() > self._deadline:
                self._timer.cancel()
                self._timer = None
            if self._timer is None:
                self._timer = self.loop.call_at(self._deadline, self._check_deadline)

        def _check_deadline(self) -> None:
            self._timer = None
            if self._deadline is None or self.transport.is_closing():
                return
            if self.loop.time() < self._deadline:
                self._timer = self.loop.call_at(self._deadline, self._check_deadline)
            elif self.reads_body and self.is_answering and not self.cycle.response_started:
                self._refuse("408 Request Timeout", f"the body was not here after {self._deadline - self._begun:.0f} s")
            else:
                self.transport.close()

        def _refuse(self, status: str, text: str) -> None:
            if not self.is_answering or not self.cycle.response_started:
                body = json.dumps(describe_refusal(text, status[4:].lower().replace(" ", "_")))
                head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\nconnection: close"
                self.transport.write(f"{head}\r\n\r\n{body}".encode())
            self.transport.close()

    return Bounded
