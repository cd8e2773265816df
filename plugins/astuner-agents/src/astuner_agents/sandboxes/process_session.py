"""A sandbox of this machine, led by a supervisor: its directories, and the commands in it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from astuner.contract.protocols import CommandResult, KilledBy
from astuner_agents.sandboxes.command_output import InputPipe, OutputPipe
from astuner_agents.sandboxes.file_transfer import measure, read_files, write_files
from astuner_agents.sandboxes.gateway_relay import GatewayRelay
from astuner_agents.sandboxes.serial_session import SerialSession
from astuner_agents.sandboxes.supervisor import SandboxLost, Supervisor
from astuner_agents.sandboxes.tree_removal import remove_tree

LOOK_S = 1.0
"""How often the files of a sandbox are measured."""
DRAIN_S = 5.0
"""Longest wait for the rest of the output, when every process that could write has ended."""


@frozen(kw_only=True)
class SandboxDirectories:
    """The directories of a sandbox, here and as programs in it see them."""

    directory: Path
    """Holds `work`, `home` and `tmp`."""
    workdir: str
    home: str
    tmp: str
    uid: int | None = None
    """Who owns the files; None for the user of this process."""
    folders: tuple[str, ...] = ("work", "home", "tmp")
    """The directories whose files count, relative to `directory`."""


class ProcessSession(SerialSession):
    """One sandbox."""

    def __init__(
        self,
        supervisor: Supervisor,
        place: SandboxDirectories,
        *,
        env: Mapping[str, str],
        max_disk_bytes: int,
        gateway_url: str | None,
        relay: GatewayRelay | None,
        release: Callable[[], None],
    ) -> None:
        """`release` is called when it is closed."""
        super().__init__(place.workdir, place.home, gateway_url, env=env, release=release)
        self._supervisor, self._place = supervisor, place
        self._max_disk_bytes, self._relay = max_disk_bytes, relay

    async def write_below(self, place: str, files: Mapping[str, bytes]) -> None:
        """Write them in a thread."""
        directory = self._place.directory / ("home" if place == self.home else "work")
        await asyncio.to_thread(write_files, directory, files, owner=self._place.uid)

    async def play(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        stdin: bytes,
        timeout_s: float | None,
        max_output_bytes: int,
    ) -> CommandResult:
        """Run a command in the sandbox."""
        running = _Running(self._supervisor, self._measure, max_output_bytes)
        return await running.play(command, env, cwd, stdin, timeout_s, self._max_disk_bytes)

    async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
        """Read them in a thread."""
        return await asyncio.to_thread(read_files, self._place.directory / "work", patterns, max_bytes=max_bytes)

    async def end(self) -> None:
        """End its processes, and remove its directories."""
        if self._relay is not None:
            await self._relay.close()
        await self._supervisor.end()
        await asyncio.to_thread(remove_tree, self._place.directory)

    def _measure(self) -> int:
        return measure(*(self._place.directory / name for name in self._place.folders))


class _Running:
    """One command."""

    def __init__(self, supervisor: Supervisor, measure_files: Callable[[], int], max_output_bytes: int) -> None:
        self._supervisor, self._measure = supervisor, measure_files
        self._killed_by: KilledBy | None = None
        self._killing: asyncio.Task[None] | None = None
        self._stdout = OutputPipe(max_output_bytes, lambda: self._end("output"))
        self._stderr = OutputPipe(max_output_bytes, lambda: self._end("output"))

    async def play(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        stdin: bytes,
        timeout_s: float | None,
        max_disk_bytes: int,
    ) -> CommandResult:
        began = time.monotonic()
        pipes = InputPipe(stdin), self._stdout, self._stderr
        answering: asyncio.Future[tuple[int, str]] | None = None
        watching = asyncio.ensure_future(self._watch_disk(max_disk_bytes))
        try:
            await self._supervisor.start(command, env, cwd, [pipe.theirs for pipe in pipes])
            for pipe in pipes:
                pipe.close_theirs()
            answering = asyncio.ensure_future(self._supervisor.wait_for_command())
            await asyncio.wait({answering}, timeout=timeout_s)
            if not answering.done():
                self._end("timeout")
            status, ended_by = await answering
            await self._stdout.wait(DRAIN_S)
            await self._stderr.wait(DRAIN_S)
            return self._describe(status, ended_by, time.monotonic() - began)
        finally:
            watching.cancel()
            if answering is None or not answering.done():
                self._supervisor.hang_up()
            if answering is not None and not answering.done():
                answering.cancel()
            for pipe in pipes:
                pipe.close()

    def _describe(self, status: int, ended_by: str, duration_s: float) -> CommandResult:
        killed_by = self._killed_by
        if killed_by is None and ended_by == "processes":
            killed_by = "processes"
        if killed_by is None and status == -signal.SIGXFSZ:
            killed_by = "disk"
        return CommandResult(
            exit_code=status,
            stdout=self._stdout.text,
            stderr=self._stderr.text,
            killed_by=killed_by,
            duration_s=duration_s,
        )

    def _end(self, reason: KilledBy) -> None:
        if self._killed_by is None:
            self._killed_by = reason
            self._killing = asyncio.ensure_future(self._kill())

    async def _kill(self) -> None:
        # If the supervisor has ended, its answer reports that.
        with suppress(SandboxLost):
            await self._supervisor.kill()

    async def _watch_disk(self, most: int) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if await asyncio.to_thread(self._measure) > most:
                self._end("disk")
                return
