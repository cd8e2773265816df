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
from astuner.contract.protocols import CommandResult, SandboxSpec
from astuner_agents.docker.archives import list_roots, pack_directories, pack_files, unpack_matches
from astuner_agents.docker.attached_process import AttachedProcess, open_process
from astuner_agents.docker.container import Container, read_program
from astuner_agents.docker.gateway_calls import GatewayCalls
from astuner_agents.docker.options import DockerOptions
from astuner_agents.docker.running_command import Keeper, RunningCommand
from astuner_agents.sandboxes import SerialSession, split_path

LONGEST_WORD = 131_071
"""Most bytes of one word or variable of a command on Linux."""

P = ParamSpec("P")
T = TypeVar("T")


class DockerSession(SerialSession):
    """One container."""

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
        super().__init__(options.workdir, options.home, calls.url, env=env, release=release)
        self._container, self._options, self._calls = container, options, calls
        self._keeper = Keeper(keeper)
        self._executor = executor

    async def write_below(self, place: str, files: Mapping[str, bytes]) -> None:
        """Write them as the user of programs."""
        inside = {str(PurePosixPath(*split_path(path))): content for path, content in files.items()}
        if inside:
            packed = pack_files(inside, self._container.uid, self._container.gid)
            await self._call(self._container.write, place, packed)

    async def play(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        stdin: bytes,
        timeout_s: float | None,
        max_output_bytes: int,
    ) -> CommandResult:
        """Run it in the container.

        A shell reports the signal that ended a program as an exit code above 128, and so does Docker: a program that exits with
        such a code itself has ended by that signal here too.
        """
        try:
            _check_words([*command, cwd, *(f"{name}={value}" for name, value in env.items())], command[0])
            words = ["/bin/sh", "-c", read_program("command.sh"), "sh", cwd, *command]
            process, stream = await self._call(
                self._container.daemon.execute, self._container.id, words, env, self._options.user or ""
            )
            running = RunningCommand(
                self._container, self._keeper, process, await open_process(stream), self._options, max_output_bytes, self._call
            )
            return await running.play(command[0], cwd, stdin, timeout_s)
        except ServiceUnavailable as error:
            # Why the container has ended is a better reason than that a call has failed.
            ended = await self._call(self._container.describe_end)
            raise error if ended is None else ServiceUnavailable(ended) from error

    async def read_files(self, patterns: Sequence[str], *, max_bytes: int) -> Mapping[str, bytes]:
        """Read them in a thread."""
        return await self._call(self._read, patterns, max_bytes)

    async def end(self) -> None:
        """Remove the container."""
        await self._calls.close()
        self._keeper.close()
        await self._call(self._container.remove)

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
