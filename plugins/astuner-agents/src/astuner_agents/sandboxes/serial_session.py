"""What sandboxes have in common: files by directory, one command at a time, and an end that nothing interrupts."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import PurePosixPath

from astuner.contract.protocols import MAX_OUTPUT_BYTES, CommandResult, SandboxSession
from astuner.episodes.containment.endings import is_requested


class SerialSession(SandboxSession):
    """One sandbox. Belongs to the event loop that opened it."""

    def __init__(
        self, workdir: str, home: str, gateway_url: str | None, *, env: Mapping[str, str], release: Callable[[], None]
    ) -> None:
        """`env` is what commands have without asking for it. `release` is called when the sandbox is closed."""
        self.workdir, self.home, self.gateway_url = workdir, home, gateway_url
        self._env, self._release = env, release
        self._is_closed = False
        self._is_busy = False

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Write them, with the directories that they are in; one that begins with `#!` can be run."""
        places: dict[str, dict[str, bytes]] = {self.workdir: {}, self.home: {}}
        for name, content in files.items():
            place, path = (self.home, name[2:]) if name.startswith("~/") else (self.workdir, name)
            places[place][path] = content.encode() if isinstance(content, str) else content
        for place, some in places.items():
            await self.write_below(place, some)

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
            variables = {**self._env, **(env or {})}
            place = str(PurePosixPath(self.workdir, cwd or "."))
            given = stdin.encode() if isinstance(stdin, str) else stdin
            return await self.play(command, variables, place, given, timeout_s, max_output_bytes)
        finally:
            self._is_busy = False

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
            await self.end()
        finally:
            self._release()

    @abstractmethod
    async def write_below(self, place: str, files: Mapping[str, bytes]) -> None:
        """Write files by their paths below `workdir` or `home`; raises `ValueError` for one outside of it."""

    @abstractmethod
    async def play(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        stdin: bytes,
        timeout_s: float | None,
        max_output_bytes: int,
    ) -> CommandResult:
        """Run a command with these variables, and no others, in a directory of the sandbox."""

    @abstractmethod
    async def end(self) -> None:
        """End what runs, and remove all files."""
