"""A sandbox that is a cell of this machine: its directories, and the commands in it."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from attrs import frozen

from astuner.contract.protocols import CommandResult, SandboxSession
from astuner.contract.protocols.sandbox import MAX_OUTPUT_BYTES, KilledBy
from astuner.episodes.containment.endings import is_requested
from astuner_agents.sandboxes.cell import Cell, CellLost
from astuner_agents.sandboxes.command_output import InputPipe, OutputPipe
from astuner_agents.sandboxes.file_transfer import measure, read_files, write_files
from astuner_agents.sandboxes.gateway_relay import GatewayRelay
from astuner_agents.sandboxes.tree_removal import remove_tree

LOOK_S = 1.0
"""How often the files of a sandbox are measured."""
DRAIN_S = 5.0
"""Longest wait for the rest of the output, when every process that could write has ended."""


@frozen(kw_only=True)
class CellPlace:
    """The directories of a cell, here and as programs in it see them."""

    directory: Path
    """Holds `work`, `home` and `tmp`."""
    workdir: str
    home: str
    tmp: str
    uid: int | None = None
    """Who owns the files; None for the user of this process."""
    folders: tuple[str, ...] = ("work", "home", "tmp")
    """The directories whose files count, relative to `directory`."""


class ProcessSession(SandboxSession):
    """One sandbox. Belongs to the event loop that opened it."""

    def __init__(
        self,
        cell: Cell,
        place: CellPlace,
        *,
        env: Mapping[str, str],
        max_disk_bytes: int,
        gateway_url: str | None,
        relay: GatewayRelay | None,
        release: Callable[[], None],
    ) -> None:
        """`release` is called when it is closed."""
        self.workdir, self.home = place.workdir, place.home
        self.gateway_url = gateway_url
        self._cell, self._place, self._env = cell, place, env
        self._max_disk_bytes, self._relay, self._release = max_disk_bytes, relay, release
        self._is_closed = False
        self._is_busy = False

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Write them, with the directories that they are in; one that begins with `#!` can be run."""
        places: dict[str, dict[str, bytes]] = {"work": {}, "home": {}}
        for name, content in files.items():
            place, path = ("home", name[2:]) if name.startswith("~/") else ("work", name)
            places[place][path] = content.encode() if isinstance(content, str) else content
        for place, some in places.items():
            await asyncio.to_thread(write_files, self._place.directory / place, some, owner=self._place.uid)

    async def run(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        stdin: str | bytes = b"",
        timeout_s: float | None = None,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
    ) -> CommandResult:
        """Run a program; a cancelled `run` ends the whole sandbox, which can then only be closed."""
        if self._is_busy:
            raise RuntimeError("a sandbox runs one command at a time")
        self._is_busy = True
        try:
            words = {**self._env, **(env or {})}
            place = str(PurePosixPath(self.workdir, cwd or "."))
            given = stdin.encode() if isinstance(stdin, str) else stdin
            return await _Running(self._cell, self._measure, max_output_bytes).play(
                command, words, place, given, timeout_s, self._max_disk_bytes
            )
        finally:
            self._is_busy = False

    async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
        """Read them in a thread."""
        return await asyncio.to_thread(read_files, self._place.directory / "work", patterns, max_bytes=max_bytes)

    async def close(self) -> None:
        """End it, also while the episode is being cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        closing = asyncio.ensure_future(self._close())
        try:
            await asyncio.shield(closing)
        except BaseException as error:
            if is_requested(error):
                # Its processes and files would outlive the episode.
                await closing
            raise

    async def _close(self) -> None:
        try:
            if self._relay is not None:
                await self._relay.close()
            await self._cell.end()
            await asyncio.to_thread(remove_tree, self._place.directory)
        finally:
            self._release()

    def _measure(self) -> int:
        return measure(*(self._place.directory / name for name in self._place.folders))


class _Running:
    """One command."""

    def __init__(self, cell: Cell, measure_files: Callable[[], int], max_output_bytes: int) -> None:
        self._cell, self._measure = cell, measure_files
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
            await self._cell.start(command, env, cwd, [pipe.theirs for pipe in pipes])
            for pipe in pipes:
                pipe.close_theirs()
            answering = asyncio.ensure_future(self._cell.wait_for_command())
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
                self._cell.hang_up()
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
        # Where the cell is gone, its answer says so.
        with suppress(CellLost):
            await self._cell.kill()

    async def _watch_disk(self, most: int) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            if await asyncio.to_thread(self._measure) > most:
                self._end("disk")
                return
