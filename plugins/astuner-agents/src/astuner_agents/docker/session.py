"""A sandbox that is a container: its files, and the commands in it."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import PurePosixPath
from typing import ParamSpec, TypeVar

from astuner.contract.errors import ServiceUnavailable
from astuner.contract.protocols import CommandResult, SandboxSession, SandboxSpec
from astuner_agents.docker.archives import list_roots, pack_directories, pack_files, unpack_matches
from astuner_agents.docker.attached_process import AttachedProcess, open_process
from astuner_agents.docker.container import Container, read_program
from astuner_agents.docker.gateway_calls import GatewayCalls
from astuner_agents.docker.options import DockerOptions
from astuner_agents.docker.running_command import Keeper, RunningCommand
from astuner_agents.sandboxes import split_path

MAX_OUTPUT_BYTES = 8 * 1024 * 1024
LONGEST_WORD = 131_071
"""Most bytes of one word or variable of a command on Linux."""

P = ParamSpec("P")
T = TypeVar("T")


class DockerSession(SandboxSession):
    """One container. Belongs to the event loop that opened it."""

    def __init__(
        self,
        container: Container,
        options: DockerOptions,
        calls: GatewayCalls,
        keeper: AttachedProcess,
        *,
        env: Mapping[str, str],
        executor: Executor,
        release: Callable[[], None],
    ) -> None:
        """`open_session` makes one. `release` is called when it is closed."""
        self.workdir, self.home = options.workdir, options.home
        self.gateway_url = calls.url
        self._container, self._options, self._calls = container, options, calls
        self._keeper = Keeper(keeper)
        self._env, self._executor, self._release = env, executor, release
        self._is_closed = False
        self._is_busy = False

    async def write_files(self, files: Mapping[str, str | bytes]) -> None:
        """Write them as the user of programs, with the directories that they are in; one that begins with `#!` can be run."""
        places: dict[str, dict[str, bytes]] = {self.workdir: {}, self.home: {}}
        for name, content in files.items():
            place, path = (self.home, name[2:]) if name.startswith("~/") else (self.workdir, name)
            inside = str(PurePosixPath(*split_path(path)))
            places[place][inside] = content.encode() if isinstance(content, str) else content
        for place, some in places.items():
            if some:
                packed = pack_files(some, self._container.uid, self._container.gid)
                await self._call(self._container.write, place, packed)

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
        """Run a program; a cancelled `run` ends the whole sandbox, which can then only be closed.

        A shell reports the signal that ended a program as an exit code above 128, and so does Docker: a program that exits with
        such a code itself has ended by that signal here too.
        """
        if self._is_busy:
            raise RuntimeError("a sandbox runs one command at a time")
        self._is_busy = True
        try:
            variables = {**self._env, **(env or {})}
            place = str(PurePosixPath(self.workdir, cwd or "."))
            _check_words([*command, place, *(f"{name}={value}" for name, value in variables.items())], command[0])
            words = ["/bin/sh", "-c", read_program("command.sh"), "sh", place, *command]
            process, stream = await self._call(
                self._container.daemon.execute, self._container.id, words, variables, self._options.user or ""
            )
            given = stdin.encode() if isinstance(stdin, str) else stdin
            running = RunningCommand(
                self._container, self._keeper, process, await open_process(stream), self._options, max_output_bytes, self._call
            )
            return await running.play(command[0], place, given, timeout_s)
        except ServiceUnavailable as error:
            # Why the container has ended is a better reason than that a call has failed.
            ended = await self._call(self._container.describe_end)
            raise error if ended is None else ServiceUnavailable(ended) from error
        finally:
            self._is_busy = False

    async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
        """Read them in a thread."""
        return await self._call(self._read, patterns, max_bytes)

    async def close(self) -> None:
        """End it, also while the episode is being cancelled."""
        if self._is_closed:
            return
        self._is_closed = True
        closing = asyncio.ensure_future(self._close())
        try:
            await asyncio.shield(closing)
        except asyncio.CancelledError:
            # Its container would outlive the episode.
            await closing
            raise

    async def _close(self) -> None:
        try:
            await self._calls.close()
            self._keeper.close()
            await self._call(self._container.remove)
        finally:
            self._release()

    def _read(self, patterns: Sequence[str], max_bytes: int) -> Mapping[str, bytes]:
        found: dict[str, bytes] = {}
        for root in list_roots(patterns):
            path = self.workdir if root == "." else f"{self.workdir}/{root}"
            chunks = self._container.read(path)
            if chunks is not None:
                left = max_bytes - sum(map(len, found.values()))
                with self._container.daemon.explain("files of the sandbox cannot be read"):
                    found |= unpack_matches(chunks, root, patterns, left)
        return dict(sorted(found.items()))

    async def _call(self, function: Callable[P, T], *args: P.args, **given: P.kwargs) -> T:
        """Call what blocks."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, lambda: function(*args, **given))


async def open_session(
    container: Container,
    options: DockerOptions,
    spec: SandboxSpec,
    *,
    env: Mapping[str, str],
    executor: Executor,
    release: Callable[[], None],
) -> DockerSession:
    """Return the session of a container, in the running event loop; raises `ServiceUnavailable`."""
    calls = GatewayCalls(spec.gateway_url)
    calls.start(await open_process(container.relay))
    keeper = await open_process(container.keeper)
    return DockerSession(container, options, calls, keeper, env=env, executor=executor, release=release)


def pack_places(directories: Sequence[str], uid: int, gid: int) -> bytes:
    """Return an archive of the directories that programs begin with, and may write to."""
    own = dict.fromkeys(directories, (493, uid, gid))
    parents = {str(parent): (0o755, 0, 0) for path in own for parent in PurePosixPath(path).parents if parent.name}
    return pack_directories(
        {**{path: parents[path] for path in sorted(parents)}, **{path: own[path] for path in sorted(own)}, "/tmp": (0o1777, 0, 0)}
    )


def _check_words(words: Sequence[str], program: str) -> None:
    for word in words:
        if "\0" in word:
            raise OSError(errno.EINVAL, "a NUL character in its words or variables", program)
        if len(word.encode(errors="surrogateescape")) > LONGEST_WORD:
            raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), program)
