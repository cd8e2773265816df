"""One command in a container: its input and output, its limits, and how it ended."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Literal

from astuner.contract.errors import ServiceUnavailable
from astuner.contract.protocols import CommandResult
from astuner_agents.docker.attached_process import STDERR, STDOUT, AttachedProcess
from astuner_agents.docker.container import Container
from astuner_agents.docker.options import DockerOptions

KilledBy = Literal["timeout", "output", "disk", "processes", "memory"]

LOOK_S = 2.0
"""How often the files and processes of a sandbox are measured."""
LEISURE = 10.0
"""How many times as long as a measurement takes it is waited for the next."""
END_TIMEOUT_S = 30.0
"""Longest that the end of what a command has started may take."""
CHUNK = 65536
KILLED = 128 + signal.SIGKILL
LAST_SIGNAL = 64


class Keeper:
    """The first process of a container, which ends what a command has started."""

    def __init__(self, process: AttachedProcess) -> None:
        """It has written its first line."""
        self._process = process
        self._lock = asyncio.Lock()
        self.refused = 0
        """Processes that the kernel has refused so far."""
        self.is_lost = False
        """Whether it has ended, and the container with it."""

    async def end_command(self) -> None:
        """End every process of the container's user, and wait until they have ended."""
        async with self._lock:
            await self._process.write(b"end\n")
            with suppress(TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    said = b""
                    while not said.endswith(b"\n") and (frame := await self._process.read()) is not None:
                        said += frame[1] if frame[0] == STDOUT else b""
                    self.is_lost = not said
                    words = said.split()
                    self.refused = int(words[1]) if len(words) > 1 and words[1].isdigit() else self.refused

    def close(self) -> None:
        """Let the container end."""
        self._process.close()


class RunningCommand:
    """A command that was started."""

    def __init__(
        self,
        container: Container,
        keeper: Keeper,
        process: str,
        stream: AttachedProcess,
        options: DockerOptions,
        max_output_bytes: int,
        call: Callable[..., Coroutine[Any, Any, Any]],
    ) -> None:
        """`process` is what the daemon calls it, and `call` calls what blocks."""
        self._container, self._keeper, self._process, self._stream = container, keeper, process, stream
        self._options, self._call = options, call
        self._most = max_output_bytes
        self._header: bytes | None = None
        """The first line that the script around the program has written."""
        self._output = {STDOUT: bytearray(), STDERR: bytearray()}
        self._killed_by: KilledBy | None = None
        self._killing: asyncio.Task[None] | None = None
        self._began, self._refused = time.time(), keeper.refused

    async def play(self, program: str, cwd: str, stdin: bytes, timeout_s: float | None) -> CommandResult:
        """Return how it ended; raises `OSError` if it could not be started."""
        began = time.monotonic()
        tasks = [asyncio.ensure_future(work) for work in (self._feed(stdin), self._watch())]
        reading = asyncio.ensure_future(self._read())
        try:
            await asyncio.wait({reading}, timeout=timeout_s)
            if not reading.done():
                self._end("timeout")
            await reading
            # Also what has ended the script, and what a program has left behind by that.
            await (self._killing or self._keeper.end_command())
            if self._keeper.is_lost and self._killed_by is None:
                raise ServiceUnavailable("the container of the sandbox has ended")
            status = await self._find_exit_code()
        except BaseException:
            self._keeper.close()
            raise
        finally:
            for task in (*tasks, reading):
                task.cancel()
            self._stream.close()
        self._check_start(program, cwd)
        return await self._describe(status, time.monotonic() - began)

    async def _feed(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            await self._stream.write(data[at : at + CHUNK])
        self._stream.write_eof()

    async def _read(self) -> None:
        while (frame := await self._stream.read()) is not None:
            stream, data = frame
            if self._header is None and stream == STDOUT:
                self._output[STDOUT] += data
                self._take_header()
            elif stream in self._output:
                self._keep(stream, data)

    def _take_header(self) -> None:
        line, found, rest = self._output[STDOUT].partition(b"\n")
        if found:
            self._header = bytes(line)
            self._output[STDOUT].clear()
            self._keep(STDOUT, bytes(rest))

    def _keep(self, stream: int, data: bytes) -> None:
        room = self._most - len(self._output[stream])
        self._output[stream] += data[:room]
        if len(data) > room:
            self._end("output")

    def _end(self, reason: KilledBy) -> None:
        if self._killed_by is None:
            self._killed_by = reason
            self._killing = asyncio.ensure_future(self._keeper.end_command())

    async def _watch(self) -> None:
        options = self._options
        pause = LOOK_S
        while True:
            await asyncio.sleep(pause)
            began = time.monotonic()
            with suppress(ServiceUnavailable):
                if await self._call(self._container.measure) > options.max_disk_bytes:
                    self._end("disk")
                if await self._call(self._container.count_processes) > options.max_processes:
                    self._end("processes")
                # Something has ended the script, and what holds its output goes on.
                if await self._call(self._container.read_exit_code, self._process) is not None:
                    await self._keeper.end_command()
            pause = max(LOOK_S, LEISURE * (time.monotonic() - began))

    async def _find_exit_code(self) -> int:
        pause, until = 0.002, time.monotonic() + END_TIMEOUT_S
        while True:
            code: int | None = await self._call(self._container.read_exit_code, self._process)
            if code is not None:
                return code
            if time.monotonic() > until:
                raise ServiceUnavailable(f"a program in the sandbox did not end within {END_TIMEOUT_S:g} s of being killed")
            # The daemon knows of the end of a process a little after the end of its output.
            await asyncio.sleep(pause)
            pause = min(2 * pause, 0.2)

    def _check_start(self, program: str, cwd: str) -> None:
        match (self._header or b"").split():
            case [b"started"]:
                return
            case [b"directory", number]:
                raise OSError(int(number), os.strerror(int(number)), cwd)
            case [b"program", number]:
                raise OSError(int(number), os.strerror(int(number)), program)
        if self._killed_by is None:
            said = bytes(self._output[STDOUT] + self._output[STDERR]).decode(errors="replace").strip()
            if "argument list too long" in said.lower():
                raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), program)
            raise ServiceUnavailable(f"no program can be started in the sandbox{f': {said[-500:]}' if said else ''}")

    async def _describe(self, status: int, duration_s: float) -> CommandResult:
        killed_by = self._killed_by
        code = 128 - status if 128 < status <= 128 + LAST_SIGNAL else status
        if killed_by is None and code == -signal.SIGXFSZ:
            killed_by = "disk"
        if killed_by is None and status != 0 and self._keeper.refused > self._refused:
            killed_by = "processes"
        if killed_by is None and status == KILLED and await self._call(self._container.has_run_out_of_memory, self._began):
            killed_by = "memory"
        return CommandResult(
            exit_code=code,
            stdout=self._output[STDOUT].decode(errors="replace"),
            stderr=self._output[STDERR].decode(errors="replace"),
            killed_by=killed_by,
            duration_s=duration_s,
        )
