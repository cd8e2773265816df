"""What a command writes, read as it comes and bounded, and what it is given to read."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

CHUNK = 65536


class OutputPipe:
    """A pipe that a command writes to; `over` is called once it has written more than `most` bytes, and the rest is dropped."""

    def __init__(self, most: int, over: Callable[[], None]) -> None:
        """Open it, in the running event loop."""
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._most, self._over = most, over
        self._data = bytearray()
        self._loop = asyncio.get_running_loop()
        self._ended = self._loop.create_future()
        self._loop.add_reader(self._ours, self._read)

    @property
    def text(self) -> str:
        """What was written so far."""
        return self._data.decode(errors="replace")

    async def wait(self, timeout_s: float) -> None:
        """Wait until no process holds the other end, or the time is over."""
        await asyncio.wait({self._ended}, timeout=timeout_s)

    def close(self) -> None:
        """Close both ends."""
        self.close_theirs()
        if self._ours >= 0:
            self._loop.remove_reader(self._ours)
            os.close(self._ours)
            self._ours = -1

    def close_theirs(self) -> None:
        """Close the command's end here."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def _read(self) -> None:
        try:
            data = os.read(self._ours, CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._loop.remove_reader(self._ours)
            if not self._ended.done():
                self._ended.set_result(None)
            return
        room = self._most - len(self._data)
        self._data += data[:room]
        if len(data) > room:
            self._over()


class InputPipe:
    """A pipe that a command reads from."""

    def __init__(self, data: bytes) -> None:
        """Open it, in the running event loop, and write as much as it takes."""
        self.theirs, self._ours = os.pipe()
        os.set_blocking(self._ours, False)
        self._left = memoryview(data)
        self._loop = asyncio.get_running_loop()
        self._loop.add_writer(self._ours, self._write)

    def close(self) -> None:
        """Close both ends."""
        self.close_theirs()
        self._close_ours()

    def close_theirs(self) -> None:
        """Close the command's end here."""
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def _write(self) -> None:
        try:
            self._left = self._left[os.write(self._ours, self._left[:CHUNK]) :] if self._left else self._left
        except BlockingIOError:
            return
        except OSError:
            # The command reads no more.
            self._left = memoryview(b"")
        if not self._left:
            self._close_ours()

    def _close_ours(self) -> None:
        if self._ours >= 0:
            self._loop.remove_writer(self._ours)
            os.close(self._ours)
            self._ours = -1
