"""The application without a socket, and the real command in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from attrs import field, frozen
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from astuner_logview.server.access import Access
from astuner_logview.server.app import build_app

PATIENCE_S = 60
"""On a busy machine the first answer of a kind imports for seconds."""
OpenClient = Callable[[Access], httpx.AsyncClient]


async def answer_path(request: Request) -> Response:
    """Answer what is below `/api/`."""
    if request.scope["path"] == "/api/broken":
        raise KeyError("a secret")
    return JSONResponse({"path": request.scope["path"]})


@pytest.fixture
def access() -> Access:
    return Access(port=8123)


@pytest.fixture
def open_client() -> OpenClient:
    def make(access: Access) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(build_app(access, answer_path)), base_url="http://127.0.0.1:8123")

    return make


@frozen(kw_only=True)
class Server:
    """A running `astuner logview`."""

    process: subprocess.Popen[str]
    address: str
    """With its token."""
    log: Path
    cookies: dict[str, str] = field(factory=dict)

    @property
    def port(self) -> int:
        return int(re.search(r":(\d+)/", self.address)[1])  # type: ignore[index]

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def open(self) -> httpx.Client:
        """Return a client that has opened the address, or has the cookie of one that did."""
        if not self.cookies:
            answer = httpx.get(self.address, timeout=PATIENCE_S)
            assert answer.status_code == 303
            self.cookies.update(answer.cookies)
        return httpx.Client(base_url=self.origin, follow_redirects=True, cookies=self.cookies, timeout=PATIENCE_S)

    def send(self, data: bytes) -> bytes:
        """Send bytes as they are, and return all that comes back until the server closes the connection."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=30) as connection:
            connection.sendall(data)
            return b"".join(iter(lambda: connection.recv(65536), b""))

    def stop(self) -> int:
        """Interrupt it as Ctrl-C does, and return its exit status."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(30)

    def children(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)


@contextmanager
def start_server(home: Path, *arguments: str, **variables: str) -> Iterator[Server]:
    """Start the command; everything it writes outside of its arguments is below `home`."""
    log = home / "output.txt"
    log.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "XDG_CACHE_HOME": str(home / "cache"), "PYTHONUNBUFFERED": "1", **variables}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "astuner", "logview", *arguments],
            cwd=home,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=output,
            text=True,
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://[^\s\"]+", line)
        assert found is not None, f"{line}{log.read_text()}"
        yield Server(process=process, address=found[0], log=log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("home")
    (home / "runs").mkdir()
    with start_server(home, "runs") as running:
        yield running


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return a function that starts the command with these arguments in an empty directory; it is ended after the test."""
    with ExitStack() as stack:
        yield lambda *arguments, **variables: stack.enter_context(start_server(tmp_path, *arguments, **variables))
