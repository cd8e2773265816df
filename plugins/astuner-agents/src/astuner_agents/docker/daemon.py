"""The Docker daemon: calls by its SDK, and the streams of processes in containers, with errors that name the daemon."""

from __future__ import annotations

import errno
import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import urlencode, urlsplit

from astuner.contract.errors import ServiceUnavailable

DEFAULT = "unix:///var/run/docker.sock"
TIMEOUT_S = 120.0
"""Longest that a call may take."""
POOL = 32
"""Connections to the daemon that are kept."""
LONGEST_HEADER = 65536


class Daemon:
    """A connection to a daemon. Its methods block, and can be called in any thread."""

    def __init__(self, host: str | None) -> None:
        """Nothing is connected before the first call. None looks for the daemon as the program `docker` does."""
        self.address = host or os.environ.get("DOCKER_HOST") or _find_context() or DEFAULT
        self._client: Any = None

    @property
    def api(self) -> Any:
        """The `docker.APIClient`; raises `ServiceUnavailable` if no daemon answers."""
        if self._client is None:
            import docker

            self._connect().close()
            with self.explain("it does not answer as a Docker daemon"):
                self._client = docker.APIClient(base_url=self.address, version="auto", timeout=TIMEOUT_S, max_pool_size=POOL)
        return self._client

    def close(self) -> None:
        """Close the connections that are kept."""
        if self._client is not None:
            self._client.close()

    @contextmanager
    def explain(self, problem: str) -> Iterator[None]:
        """Raise `ServiceUnavailable` with the problem in place of what the SDK raises."""
        from docker.errors import APIError, DockerException
        from requests.exceptions import RequestException

        try:
            yield
        except APIError as error:
            raise ServiceUnavailable(f"{problem}: {error.explanation or error}") from error
        except (DockerException, RequestException, OSError) as error:
            # A daemon that has ended says so in a line; the SDK's own message is that of four libraries.
            self._connect().close()
            raise ServiceUnavailable(f"the Docker daemon at {self.address}: {problem}: {error}") from error

    def attach(self, container: str) -> socket.socket:
        """Return the stream of a container's first process: its stdin, and frames of its output."""
        words = urlencode({"stream": 1, "stdin": 1, "stdout": 1, "stderr": 1})
        return self._hijack(f"containers/{container}/attach?{words}", None)

    def execute(self, container: str, command: list[str], env: Mapping[str, str], user: str) -> tuple[str, socket.socket]:
        """Start a process in a container; return its id and its stream."""
        with self.explain("a program cannot be started in its container"):
            made = self.api.exec_create(container, command, stdin=True, environment=dict(env), user=user)["Id"]
        return made, self._hijack(f"exec/{made}/start", {"Detach": False, "Tty": False})

    def _hijack(self, path: str, body: Mapping[str, Any] | None) -> socket.socket:
        """Make a call whose connection then carries the stream; the SDK may lose what comes with the answer's header."""
        text = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"POST /v{self.api.api_version}/{path} HTTP/1.1",
            "Host: docker",
            "Connection: Upgrade",
            "Upgrade: tcp",
            "Content-Type: application/json",
            f"Content-Length: {len(text)}",
        ]
        stream = self._connect()
        try:
            stream.settimeout(TIMEOUT_S)
            stream.sendall("\r\n".join([*lines, "", ""]).encode() + text)
            header = _read_header(stream)
            status = int(header.split(b" ", 2)[1])
            if status not in (101, 200):
                said = _find_message(stream.recv(LONGEST_HEADER))
                raise ServiceUnavailable(f"a program cannot be started in its container: {said}")
        except OSError as error:
            stream.close()
            raise ServiceUnavailable(f"the Docker daemon at {self.address} has ended a connection: {error}") from error
        except BaseException:
            stream.close()
            raise
        return stream

    def _connect(self) -> socket.socket:
        """Return a connection; raises `ServiceUnavailable` with the remedy if there is none."""
        parts = urlsplit(self.address)
        kind = parts.scheme.removeprefix("http+")
        if kind not in ("unix", "tcp", "http") or (kind != "unix" and os.environ.get("DOCKER_TLS_VERIFY")):
            raise ServiceUnavailable(
                f"the Docker daemon at {self.address} cannot be used: give one with a Unix socket (unix:///…), or one at "
                "tcp://… without TLS, in DOCKER_HOST or astuner.sandbox.docker.host"
            )
        stream = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        try:
            stream.settimeout(TIMEOUT_S)
            stream.connect(f"{parts.netloc}{parts.path}" if kind == "unix" else (parts.hostname, parts.port or 2375))
        except OSError as error:
            stream.close()
            raise ServiceUnavailable(self._find_remedy(error)) from error
        return stream

    def _find_remedy(self, error: OSError) -> str:
        if error.errno in (errno.EACCES, errno.EPERM):
            return (
                f"this user may not open the socket of the Docker daemon, {self.address}: add the user to the group that "
                "owns it (usermod -aG docker USER, and log in again), or run a rootless daemon"
            )
        return (
            f"no Docker daemon answers at {self.address} ({error.strerror or error}): start it (systemctl start docker), or name "
            "the one to use in DOCKER_HOST or astuner.sandbox.docker.host"
        )


def _find_context() -> str | None:
    """Return the daemon of the current context of the program `docker`."""
    import docker

    # Without a context that can be read there is the default.
    with suppress(Exception):
        found: str | None = docker.ContextAPI.get_current_context().Host
        return found
    return None


def _read_header(stream: socket.socket) -> bytes:
    """Read the header of an answer, and nothing of what follows."""
    header = b""
    while len(header) < LONGEST_HEADER:
        seen = stream.recv(4096, socket.MSG_PEEK)
        if not seen:
            raise ConnectionResetError("the end of the connection instead of an answer")
        end = (header + seen).find(b"\r\n\r\n")
        header += stream.recv(len(seen) if end < 0 else end + 4 - len(header))
        if end >= 0:
            return header
    raise ConnectionResetError("an answer without an end of its header")


def _find_message(body: bytes) -> str:
    text = body[body.find(b"{") : body.rfind(b"}") + 1]
    try:
        return str(json.loads(text)["message"])
    except (ValueError, KeyError, RecursionError):
        return body.decode(errors="replace").strip()
