"""A small HTTP server that answers as vLLM does, or as no server should: faults cannot be ordered from a real one."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.schema import Request, Sampling
from astuner.shared.processes import ProgramHandle, list_programs
from astuner_vllm.client import ServerClient
from astuner_vllm.command import ServerCommand
from astuner_vllm.member import Member
from astuner_vllm.server import ServerPlan

Act = Callable[[asyncio.StreamWriter], Awaitable[None]]
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"


def event(ids: Sequence[int] = (), *, finish: str | None = None, spans: Any = None, **more: Any) -> bytes:
    """Return an event with tokens, each of log-probability -1 unless `logprobs` is given."""
    content = [{"token_id": number, "logprob": -1.0, "rank": 1, "top_logprobs": []} for number in ids]
    choice = {
        "index": 0,
        "token_ids": list(ids),
        "finish_reason": finish,
        "weight_versions": [{"version": version, "start": start, "end": 0} for version, start in spans] if spans else None,
        "logprobs": {"content": content},
        **more,
    }
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def stream(*events: bytes, done: bool = True) -> Act:
    """Answer with events, and end properly."""

    async def act(writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"".join(events) + (b"data: [DONE]\n\n" if done else b""))
        await writer.drain()

    return act


def reset(*events: bytes) -> Act:
    """Begin an answer, then cut the connection as a killed process does."""

    async def act(writer: asyncio.StreamWriter) -> None:
        if events:
            writer.write(HEAD + b"".join(events))
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.transport.abort()

    return act


def hang(*events: bytes) -> Act:
    """Begin an answer and never go on."""

    async def act(writer: asyncio.StreamWriter) -> None:
        if events:
            writer.write(HEAD + b"".join(events))
            await writer.drain()
        await asyncio.Event().wait()

    return act


def page(body: bytes, *, status: str = "200 OK", kind: str = "text/html") -> Act:
    """Answer with something else than a stream."""

    async def act(writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()

    return act


class FakeVllm:
    """Plays its answers to `generate` in turn, the last one again and again; everything else succeeds."""

    def __init__(self, answers: Sequence[Act]) -> None:
        self.answers = list(answers)
        self.paths: list[str] = []
        self.bodies: list[Mapping[str, Any]] = []
        self.replies: dict[str, Act] = {}
        self.url = ""
        self.gone = asyncio.Event()
        """Set when a client has left in the middle of an answer."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = next((int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")), 0)
            body = json.loads(await reader.readexactly(size) or b"{}")
            path = head.split()[1]
            self.paths.append(path)
            acting = asyncio.ensure_future(self._act(path, body)(writer))
            leaving = asyncio.ensure_future(reader.read(1))
            done, _ = await asyncio.wait({acting, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if acting not in done:
                self.gone.set()
            acting.cancel()
            leaving.cancel()
            await asyncio.gather(acting, leaving, return_exceptions=True)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _act(self, path: str, body: Mapping[str, Any]) -> Act:
        name = path.partition("?")[0]
        if name == "/inference/v1/generate":
            self.bodies.append(body)
            return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        said = {"weight_version": "default", "success": True}
        return self.replies.get(name) or page(json.dumps(said).encode(), kind="application/json")


@asynccontextmanager
async def fake_vllm(*answers: Act) -> AsyncIterator[FakeVllm]:
    fake = FakeVllm(answers or [stream(event([1], finish="length"))])
    server = await asyncio.start_server(fake.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    fake.url = f"http://127.0.0.1:{port}"
    try:
        yield fake
    finally:
        server.close()


class Faults:
    """What tests make servers of."""

    event = staticmethod(event)
    stream = staticmethod(stream)
    reset = staticmethod(reset)
    hang = staticmethod(hang)
    page = staticmethod(page)
    vllm = staticmethod(fake_vllm)


@pytest.fixture
def fake() -> type[Faults]:
    return Faults


@pytest.fixture
def ask() -> Callable[..., Request]:
    """Makes a request."""

    def make(session: str = "episode/agent", constraint: Any = None, **sampling: Any) -> Request:
        settings = Sampling(**{"max_tokens": 8, **sampling})
        return Request(id="episode/0", session=session, prompt_ids=[5, 6], sampling=settings, constraint=constraint)

    return make


PROGRAM = """
import json, os, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

port, calls = int(sys.argv[1]), Path(sys.argv[2])


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.reply({"weight_version": "default", "data": [{"id": "policy", "max_model_len": 64}]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        with calls.open("a") as out:
            out.write(f"{os.getpid()} {self.path} {body.decode()}\\n")
        if self.path != "/inference/v1/generate":
            self.reply({"success": True})
            return
        content = [{"token_id": 7, "logprob": -1.0, "rank": 1, "top_logprobs": []}]
        choice = {"token_ids": [7], "finish_reason": "length", "weight_versions": None, "logprobs": {"content": content}}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.write(b"data: " + json.dumps({"choices": [choice]}).encode() + b"\\n\\ndata: [DONE]\\n\\n")
        self.close_connection = True

    def reply(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


class Programs:
    """Real programs in place of vLLM, that start in no time."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.calls = home / "calls.txt"
        """Every POST that one of them got: its pid, the path, the body."""
        self.said: list[tuple[str, str]] = []

    def say(self, text: str, level: str) -> None:
        self.said.append((level, text))

    def slow_plan(self, name: str) -> ServerPlan:
        """Of one that takes a second to start."""
        return self.plan(f"import time\ntime.sleep(1)\n{PROGRAM}", name)

    def plan(self, program: str = PROGRAM, name: str = "vllm-0", **settings: Any) -> ServerPlan:
        script = self.home / f"{name}.py"
        script.write_text(program)

        def command(port: int) -> ServerCommand:
            argv = (sys.executable, str(script), str(port), str(self.calls))
            return ServerCommand(argv=argv, env={}, facts={"model": "tiny"})

        directory = self.home / "run"
        directory.mkdir(exist_ok=True)
        return ServerPlan(name=name, command=command, directory=directory, **{"timeout_s": 60.0, **settings})

    def member(self, name: str = "vllm-0", **settings: Any) -> Member:
        def connect(launched: ProgramHandle) -> ServerClient:
            return ServerClient(str(launched.record.url), model="policy", silence_s=5)

        plan = self.plan(name=name, **settings)
        return Member(name=name, client=ServerClient(""), connect=connect, plan=plan)

    def posts(self) -> list[list[str]]:
        return [line.split(" ", 2) for line in self.calls.read_text().splitlines()] if self.calls.exists() else []


@pytest.fixture
def programs(tmp_path: Path, own_state: Path) -> Iterator[Programs]:
    yield Programs(tmp_path)
    assert list_programs() == [], "a program was left behind"
