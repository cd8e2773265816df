"""Spans made by hand, a scripted LLM, and a Phoenix that answers as a real one was recorded to."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

DATA = Path(__file__).parent / "data"
SECOND = 10**9
START = 1_795_000_000 * SECOND


@pytest.fixture
def recorded() -> Path:
    return DATA


@pytest.fixture
def span() -> Callable[..., dict[str, Any]]:
    """Makes a span of OTLP's JSON: `span(1, 2, parent=1, at=3, **attributes)`; double underscores stand for dots."""

    def make(
        trace: int,
        number: int,
        *,
        parent: int | None = None,
        name: str = "invoke_agent friday",
        at: float = 0.0,
        attributes: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        return {
            "traceId": f"{trace:032x}",
            "spanId": f"{number:016x}",
            **({"parentSpanId": f"{parent:016x}"} if parent else {}),
            "name": name,
            "startTimeUnixNano": str(START + int(at * SECOND)),
            "endTimeUnixNano": str(START + int((at + 1) * SECOND)),
            "attributes": [{"key": key, "value": any_value(value)} for key, value in (attributes or {}).items()],
            **more,
        }

    return make


@pytest.fixture
def asked(span: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Makes the span of an agent that was asked something: `asked(1, "What?", "That.", conversation="c")`."""

    def make(
        number: int,
        query: Any,
        answer: str | None = "fine",
        conversation: str | None = None,
        at: float | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        attributes = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "friday",
            "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": query}]}]),
            **({"gen_ai.conversation.id": conversation} if conversation else {}),
        }
        if answer is not None:
            said = [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
            attributes["gen_ai.output.messages"] = json.dumps(said)
        return span(number, number, at=float(number) if at is None else at, attributes=attributes, **more)

    return make


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes spans as OTLP lines: `write(span, span)`; anything but a span is a line of its own."""

    def make(*items: Any, name: str = "traces.jsonl") -> Path:
        path = tmp_path / name
        with path.open("w") as file:
            for item in items:
                if isinstance(item, str):
                    file.write(item + "\n")
                    continue
                is_span = "traceId" in item or "spanId" in item
                document = {"resourceSpans": [{"scopeSpans": [{"spans": [item]}]}]} if is_span else item
                file.write(json.dumps(document) + "\n")
        return path

    return make


def any_value(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"boolValue": value}
        case int():
            return {"intValue": str(value)}
        case float():
            return {"doubleValue": value}
        case list():
            return {"arrayValue": {"values": [any_value(item) for item in value]}}
        case dict():
            return {"kvlistValue": {"values": [{"key": key, "value": any_value(item)} for key, item in value.items()]}}
    return {"stringValue": value}


class Server:
    """An HTTP server on a free port of loopback, which a function answers: `answer(method, path, query, headers, body)`."""

    def __init__(self, answer: Callable[..., tuple[int, Any]]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.reply()

            def do_POST(self) -> None:
                self.reply()

            def reply(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                parts = urlsplit(self.path)
                status, value = answer(self.command, parts.path, parse_qs(parts.query), self.headers, body)
                written = value.encode() if isinstance(value, str) else json.dumps(value).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(written)))
                self.end_headers()
                self.wfile.write(written)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., Server]]:
    """Starts a server that a function answers."""
    started: list[Server] = []

    def start(answer: Callable[..., tuple[int, Any]]) -> Server:
        started.append(Server(answer))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture(scope="session")
def phoenix(serve: Callable[..., Server]) -> str:
    """The address of a Phoenix, which hands out the recorded spans three a page."""
    told = json.loads((DATA / "phoenix_20.26.1_rest.json").read_text())

    def answer(method: str, path: str, query: Mapping[str, list[str]], headers: Any, body: bytes) -> tuple[int, Any]:
        if path == "/v1/projects":
            return 200, {"data": told["projects"], "next_cursor": None}
        what = path.removeprefix("/v1/projects/UHJvamVjdDox/")
        if what == "spans":
            start = int(query.get("cursor", ["0"])[0])
            following = start + 3 if start + 3 < len(told["spans"]) else None
            return 200, {"data": told["spans"][start : start + 3], "next_cursor": following and str(following)}
        kind = what.removesuffix("_annotations")
        wanted = query.get(f"{kind}_ids", [])
        return 200, {"data": [one for one in told[what] if one[f"{kind}_id"] in wanted], "next_cursor": None}

    return serve(answer).url


@pytest.fixture(scope="session")
def studio() -> Callable[..., None]:
    """Writes a database of AgentScope Studio: `studio(path, rows)`, each row with some of the columns."""

    def make(path: Path, rows: list[dict[str, Any]], columns: str) -> None:
        path.unlink(missing_ok=True)
        with sqlite3.connect(path) as database:
            database.execute(f"CREATE TABLE span_table ({columns})")
            for row in rows:
                names = ", ".join(f'"{name}"' for name in row)
                values = [json.dumps(value) if isinstance(value, dict | list) else value for value in row.values()]
                database.execute(f"INSERT INTO span_table ({names}) VALUES ({', '.join('?' * len(values))})", values)
        database.close()

    return make


STUDIO_1_0_9 = (
    "id varchar PRIMARY KEY, traceId varchar, spanId varchar, traceState varchar, parentSpanId varchar, flags integer, "
    "name varchar, kind integer, startTimeUnixNano varchar, endTimeUnixNano varchar, attributes json, events json, links json, "
    "status json, resource json, scope json, statusCode integer, serviceName varchar, operationName varchar, model varchar, "
    "instrumentationName varchar, inputTokens integer, outputTokens integer, totalTokens integer, conversationId varchar"
)
STUDIO_2025 = (
    "id varchar PRIMARY KEY, traceId varchar, spanId varchar, parentSpanId varchar, name varchar, kind integer, "
    "startTimeUnixNano varchar, endTimeUnixNano varchar, attributes json, events json, status json, runId varchar"
)


@pytest.fixture(scope="session")
def new_studio(studio: Callable[..., None]) -> Callable[[Path], None]:
    """Writes a database as version 1.0.9 does: attributes nested."""
    message = {"type": "text", "content": "Capital of France?"}

    def row(number: int, name: str, parent: str | None, attributes: dict[str, Any]) -> dict[str, Any]:
        return {
            "id": f"s{number}",
            "traceId": "a" * 32,
            "spanId": f"{number:016x}",
            "parentSpanId": parent,
            "name": name,
            "startTimeUnixNano": str(START + number),
            "endTimeUnixNano": str(START + SECOND),
            "attributes": attributes,
            "events": [],
            "status": {"code": 1},
            "conversationId": "chat-7",
        }

    agent = {
        "gen_ai": {
            "operation": {"name": "invoke_agent"},
            "agent": {"name": "friday"},
            "input": {"messages": [{"role": "user", "parts": [message]}]},
            "output": {"messages": [{"role": "assistant", "parts": [{"type": "text", "content": "Paris."}]}]},
        }
    }
    shown = [{"role": "system", "parts": [{"type": "text", "content": "Be brief."}]}, {"role": "user", "parts": [message]}]
    model = {"gen_ai": {"operation": {"name": "chat"}, "request": {"model": "qwen"}, "input": {"messages": json.dumps(shown)}}}
    second = {
        "gen_ai": {
            "operation": {"name": "invoke_agent"},
            "input": {"messages": {"role": "user", "content": "And of Spain?"}},
            "output": {"messages": {"role": "assistant", "content": "Madrid."}},
        }
    }

    def make(path: Path) -> None:
        rows = [
            row(2, "chat qwen", f"{1:016x}", model),
            row(1, "invoke_agent friday", None, agent),
            {**row(3, "invoke_agent friday", None, second), "traceId": "b" * 32},
        ]
        studio(path, rows, STUDIO_1_0_9)

    return make


@pytest.fixture(scope="session")
def old_studio(studio: Callable[..., None]) -> Callable[[Path], None]:
    """Writes a database as the versions of 2025 did: messages as Python's `repr`."""

    def row(number: int, query: str, answer: str) -> dict[str, Any]:
        return {
            "id": f"s{number}",
            "traceId": f"{number:032x}",
            "spanId": f"{number:016x}",
            "name": "ReActAgent.reply",
            "startTimeUnixNano": str(START + number),
            "endTimeUnixNano": str(START + number + 5),
            "attributes": {"input": {"args": [], "kwargs": {"msg": query, "structured_model": None}}, "output": answer},
            "events": [],
            "status": {"code": 1},
            "runId": f"run-{number}",
        }

    def message(role: str, content: Any) -> str:
        return (
            f"Msg(id='x', name='{role}', content={content!r}, role='{role}', metadata=None, timestamp='2025-11-20 09:41:16.850', "
            "invocation_id='None')"
        )

    def make(path: Path) -> None:
        rows = [
            row(1, message("user", 'What\'s 6*7, she asked: "6*7"?'), message("assistant", [{"type": "text", "text": "42"}])),
            row(2, message("user", "Line\nbreaks, too?"), message("assistant", "Yes.")),
        ]
        studio(path, rows, STUDIO_2025)

    return make
