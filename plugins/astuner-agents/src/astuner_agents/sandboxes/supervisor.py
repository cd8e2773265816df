"""A running supervisor, seen from the process that started it: orders and answers over a socket."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from astuner.contract.errors import ServiceUnavailable

PROGRAM = Path(__file__).with_name("supervisor_program.py")
START = "import sys; sys.path.append(sys.argv.pop(1)); import supervisor_program; supervisor_program.main()"
"""Imported and not run, so that its byte code is kept."""
END_TIMEOUT_S = 15.0
"""Longest that a supervisor may take to end its processes and remove its files."""
START_TIMEOUT_S = 60.0
LONGEST_ANSWER = 65536


@frozen(kw_only=True)
class SupervisorSettings:
    """The settings of a supervisor, as `supervisor_program` reads them."""

    limits: Mapping[str, int]
    """By the name of a constant of `resource`."""
    max_processes: int
    """Most processes of a command, counted once a second."""
    uid: int | None = None
    """The user and group that commands run as; None leaves those of the supervisor."""
    remove: Sequence[str] = ()
    """The directories that it empties at its end, by their paths inside."""

    def list_arguments(self) -> Sequence[str]:
        """Return them as the arguments of the program."""
        limits = ",".join(f"{name}={value}" for name, value in self.limits.items())
        return ["-" if self.uid is None else str(self.uid), str(self.max_processes), limits, *self.remove]


class SandboxLost(ServiceUnavailable):
    """A supervisor ended before its sandbox was closed, or never started."""


class Supervisor:
    """The supervisor of one sandbox. It can be started in any thread; its other methods belong to one event loop."""

    def __init__(self, command: Sequence[str], settings: SupervisorSettings, errors: Path) -> None:
        """Start it. `command` comes before the interpreter and runs it, with one inherited descriptor; it may be empty.

        What goes wrong at the start is written to `errors`.
        """
        ours, theirs = socket.socketpair()
        with ours, theirs:
            started = [find_interpreter(), "-I", "-S", "-E", "-c", START, str(PROGRAM.parent), str(theirs.fileno())]
            words = [*command, *started, *settings.list_arguments()]
            try:
                with errors.open("wb") as said:
                    self._process = subprocess.Popen(
                        words,
                        stdin=subprocess.DEVNULL,
                        stdout=said,
                        stderr=said,
                        pass_fds=(theirs.fileno(),),
                        env=_make_environment(),
                        cwd="/",
                        start_new_session=True,
                    )
            except OSError as error:
                raise SandboxLost(f"{words[0]} cannot be started: {error.strerror}") from error
            ours.setblocking(False)
            self._channel: socket.socket | None = ours.dup()
        self._channel.setblocking(False)
        self._errors = errors
        self._held = b""
        self._received: list[int] = []

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    async def wait_until_ready(self) -> None:
        """Return when it waits for orders; raises `SandboxLost` if it could not be started."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                await self._receive()
        except TimeoutError:
            raise SandboxLost(f"the sandbox was not ready after {START_TIMEOUT_S:g} s") from None

    async def start(self, command: Sequence[str], env: Mapping[str, str], cwd: str, descriptors: Sequence[int]) -> None:
        """Start a command with these descriptors for stdin, stdout and stderr."""
        variables = [f"{name}={value}" for name, value in env.items()]
        if any("\0" in one for one in (*command, *variables, cwd)):
            raise OSError(errno.EINVAL, "a NUL character in its words or variables", command[0])
        await self._send(["run", cwd, str(len(command)), *command, *variables], descriptors)

    async def wait_for_command(self) -> tuple[int, str]:
        """Return the exit status and what ended the command, or `none`; raises `OSError` if it could not be started."""
        match (await self._receive()).split(" ", 2):
            case ["status", status, killed_by]:
                return int(status), killed_by
            case ["errno", number, path]:
                raise OSError(int(number), os.strerror(int(number)), path)
            case _:
                raise self._explain()

    async def kill(self) -> None:
        """End the command that runs."""
        await self._send(["kill"], ())

    async def listen(self, port: int) -> socket.socket:
        """Return a socket that listens inside, on a port of 127.0.0.1."""
        await self._send(["listen", str(port)], ())
        answer = await self._receive()
        if not self._received:
            raise SandboxLost(f"port {port} cannot be opened in the sandbox: {answer}")
        listening = socket.socket(fileno=self._received.pop())
        listening.setblocking(False)
        return listening

    async def end(self) -> bool:
        """End it with everything in it, but not its files; return False if something could not be ended in time."""
        with suppress(SandboxLost):
            await self._send(["end"], ())
        self.hang_up()
        return await asyncio.to_thread(self.wait)

    def hang_up(self) -> None:
        """Let it end."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        while self._received:
            os.close(self._received.pop())

    def wait(self) -> bool:
        """Wait until it has ended; kill it, and return False, if it takes too long."""
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True

    async def _send(self, order: Sequence[str], descriptors: Sequence[int]) -> None:
        channel, data = self._get_channel(), b"".join(os.fsencode(field) + b"\0" for field in order)
        data = b"%d\n%s" % (len(data), data)
        try:
            sent = socket.send_fds(channel, [data], list(descriptors)) if descriptors else 0
            await asyncio.get_running_loop().sock_sendall(channel, data[sent:])
        except OSError as error:
            raise self._explain() from error

    async def _receive(self) -> str:
        channel = self._get_channel()
        while b"\n" not in self._held:
            await _wait_readable(channel)
            try:
                data, came, _, _ = socket.recv_fds(channel, LONGEST_ANSWER, 4)
            except BlockingIOError:
                continue
            except OSError as error:
                raise self._explain() from error
            for one in came:
                os.set_inheritable(one, False)
            self._received += came
            self._held += data
            if not data or len(self._held) > LONGEST_ANSWER:
                raise self._explain()
        line, _, self._held = self._held.partition(b"\n")
        return os.fsdecode(line)

    def _get_channel(self) -> socket.socket:
        if self._channel is None:
            raise SandboxLost("the sandbox is closed")
        return self._channel

    def _explain(self) -> SandboxLost:
        said = self._errors.read_bytes()[-2000:].decode(errors="replace").strip() if self._errors.is_file() else ""
        return SandboxLost(f"the sandbox ended, or could not be started{f': {said}' if said else ''}")


def find_interpreter() -> str:
    """Return the path of this Python, outside of a virtual environment: a supervisor needs only the standard library."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _make_environment() -> Mapping[str, str]:
    from astuner.episodes.containment.leftovers import EPISODES
    from astuner.shared.processes import MARK

    kept = ("PATH", "LANG", "LC_ALL", EPISODES, MARK)
    return {name: os.environ[name] for name in kept if name in os.environ}


async def _wait_readable(channel: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    readable: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(channel.fileno(), settle)
    try:
        await readable
    finally:
        if channel.fileno() >= 0:
            loop.remove_reader(channel.fileno())
