"""Messages between two processes: in order, all or none of each."""

from __future__ import annotations

import asyncio
import pickle
import struct
from collections.abc import Callable, Sequence
from typing import Any, Protocol, cast

_HEAD = struct.Struct("!Q")
"""The bytes that follow."""


class MessageChannel(Protocol):
    """One end of a connection. Lives in one event loop."""

    def send(self, message: Any) -> None:
        """Send a message; has no effect once the other end has gone."""

    def close(self) -> None:
        """Hang up, after what was sent."""


class StreamChannel(asyncio.Protocol):
    """An end of a connection between processes of one user on one machine, which trust each other: messages are pickled."""

    def __init__(self, receive: Callable[[StreamChannel, Any], None], lose: Callable[[StreamChannel], None]) -> None:
        """`receive` gets each message; `lose` is called once, when the other end has gone."""
        self._receive, self._lose = receive, lose
        self._transport: asyncio.Transport | None = None
        self._incoming = bytearray()
        self._outgoing: list[Any] = []

    def send(self, message: Any) -> None:
        """Send a message, together with others of this moment."""
        if self._transport is None:
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(message)

    def close(self) -> None:
        """Hang up, after what was sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what has arrived, and deliver the complete messages."""
        self._incoming += data
        while len(self._incoming) >= _HEAD.size:
            end = _HEAD.size + _HEAD.unpack_from(self._incoming)[0]
            if len(self._incoming) < end:
                return
            messages: Sequence[Any] = pickle.loads(bytes(self._incoming[_HEAD.size : end]))
            del self._incoming[:end]
            for message in messages:
                self._receive(self, message)

    def connection_lost(self, error: Exception | None) -> None:
        """End."""
        self._transport = None
        self._lose(self)

    def _flush(self) -> None:
        messages, self._outgoing = self._outgoing, []
        if self._transport is not None and messages:
            body = pickle.dumps(messages, protocol=pickle.HIGHEST_PROTOCOL)
            self._transport.write(_HEAD.pack(len(body)) + body)
