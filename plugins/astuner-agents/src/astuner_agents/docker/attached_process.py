"""The stream of a process in a container: what it reads, and frames of what it writes."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

STDOUT, STDERR = 1, 2
HEADER = 8


class AttachedProcess:
    """A process whose stream belongs to one event loop."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """`open_process` makes one."""
        self._reader, self._writer = reader, writer

    async def read(self) -> tuple[int, bytes] | None:
        """Return the number of a stream and what was written to it next; None at the end, or if the daemon has ended."""
        try:
            header = await self._reader.readexactly(HEADER)
            return header[0], await self._reader.readexactly(int.from_bytes(header[4:], "big"))
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def write(self, data: bytes) -> None:
        """Write to its stdin; what it does not read any more is dropped."""
        with suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()

    def write_eof(self) -> None:
        """End its stdin."""
        with suppress(OSError):
            self._writer.write_eof()

    def close(self) -> None:
        """Close the stream."""
        self._writer.transport.abort()


async def open_process(stream: socket.socket) -> AttachedProcess:
    """Give a stream to the running event loop."""
    stream.setblocking(False)
    return AttachedProcess(*await asyncio.open_connection(sock=stream))


def read_line(stream: socket.socket) -> tuple[bytes, bytes]:
    """Return the first line of a process's stdout, and its stderr until then; the line is empty if it has ended. It blocks."""
    out, err = b"", b""
    while b"\n" not in out:
        header = _read_exactly(stream, HEADER)
        data = _read_exactly(stream, int.from_bytes(header[4:], "big")) if header else b""
        if not data:
            return b"", err
        if header[0] == STDOUT:
            out += data
        else:
            err += data
    return out.rstrip(b"\n"), err


def _read_exactly(stream: socket.socket, count: int) -> bytes:
    """Return that many bytes, or none if the stream ends before."""
    data = b""
    while len(data) < count:
        more = stream.recv(count - len(data))
        if not more:
            return b""
        data += more
    return data
