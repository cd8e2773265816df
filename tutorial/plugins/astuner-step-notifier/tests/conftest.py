from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


class Webhook:
    """What a server on loopback was sent."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.bodies: list[Any] = []
        self.content_types: list[str] = []
        self.arrived = threading.Event()
        self.may_answer = threading.Event()
        self.may_answer.set()

    @property
    def texts(self) -> list[str]:
        return [body["text"] for body in self.bodies]


@pytest.fixture
def webhook(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], Webhook]]:
    """Starts a server that answers with a status; it takes its time as long as `may_answer` is not set."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    servers: list[tuple[ThreadingHTTPServer, Webhook]] = []

    def start(status: int = 200) -> Webhook:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                hook.content_types.append(self.headers["Content-Type"])
                hook.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                hook.arrived.set()
                # Whoever waits for this server is let go in the end, and then fails its test instead of hanging.
                if not hook.may_answer.wait(45):
                    hook.may_answer.set()
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        hook = Webhook(f"http://127.0.0.1:{server.server_port}/services/T000-very-secret")
        threading.Thread(target=server.serve_forever, daemon=True).start()
        servers.append((server, hook))
        return hook

    yield start
    for server, hook in servers:
        hook.may_answer.set()
        server.shutdown()
        server.server_close()


@pytest.fixture
def down(monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a server that is down."""
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/very-secret"
