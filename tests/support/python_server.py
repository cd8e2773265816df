"""Python processes that start in milliseconds: forked from one that has already imported what takes the time.

A child is as fresh as `python -m …`: nothing is imported in it but the preloaded modules, and it ends as an interpreter does.
What it hides: the cost and the order of the preloaded imports, and the seed of hashes, which all children share. Its command line
and initial environment, as the system shows them, are the server's.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attrs import define, field, frozen

PROGRAM = Path(__file__).with_name("python_server_program.py")


@define
class ForkedPython:
    """A child of the server, with what tests use of `subprocess.Popen`."""

    arguments: Sequence[str]
    pid: int
    _connection: socket.socket
    returncode: int | None = field(default=None, init=False)

    def poll(self) -> int | None:
        """Return the exit code, negative for a signal; None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end and return the exit code; raises `subprocess.TimeoutExpired`."""
        if self.returncode is None:
            self._connection.settimeout(timeout)
            try:
                told = self._connection.recv(64)
            except (TimeoutError, BlockingIOError) as error:
                raise subprocess.TimeoutExpired(list(self.arguments), timeout or 0.0) from error
            assert told, "the server has ended before its child"
            self.returncode = int(told)
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        self.send_signal(signal.SIGKILL)


@frozen
class PythonServer:
    """A process that forks a child for each command."""

    socket_path: str

    def start(
        self,
        arguments: Sequence[object],
        *,
        cwd: Path,
        env: Mapping[str, str],
        output: tuple[IO[bytes], IO[bytes]],
        start_new_session: bool = False,
    ) -> ForkedPython:
        """Start `python ARGUMENTS`, where the arguments are `-m MODULE …` or `-c CODE …`; `output` is its stdout and stderr."""
        texts = [*map(str, arguments)]
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(self.socket_path)
        call = {"arguments": texts, "cwd": str(cwd), "env": dict(env), "new_session": start_new_session}
        with open(os.devnull, "rb") as nothing:
            socket.send_fds(connection, [json.dumps(call).encode()], [nothing.fileno(), *(file.fileno() for file in output)])
        return ForkedPython(texts, int(connection.recv(64)), connection)

    def run(
        self, arguments: Sequence[object], *, cwd: Path, env: Mapping[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run `python ARGUMENTS` to its end, as `subprocess.run(…, capture_output=True, text=True)` does."""
        with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
            child = self.start(arguments, cwd=cwd, env=env, output=(stdout, stderr))
            try:
                child.wait(timeout)
            finally:
                child.kill()
            out, err = (_read_from_start(file) for file in (stdout, stderr))
        return subprocess.CompletedProcess(child.arguments, child.wait(), out, err)


@contextmanager
def serve_python(
    directory: Path, *, preload: Sequence[str], env: Mapping[str, str], python: str = sys.executable
) -> Iterator[PythonServer]:
    """Start a server that has imported these modules, and kill it at the end; its socket is in this directory."""
    path = directory / "python"
    command = [python, str(PROGRAM), str(path), *preload]
    with subprocess.Popen(command, env=dict(env), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert process.stdout.readline() == "ready\n"
            yield PythonServer(str(path))
        finally:
            process.kill()


def _read_from_start(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()
