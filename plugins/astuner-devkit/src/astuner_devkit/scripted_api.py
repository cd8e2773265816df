"""A real OpenAI-compatible server on loopback with scripted answers, for clients of an auxiliary LLM."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from attrs import define, field, frozen


@frozen
class Reply:
    """An answer other than a text with status 200."""

    status: int = 200
    """0 closes the connection without an answer."""
    body: Any = None
    """JSON, or bytes as they are sent."""
    headers: Mapping[str, str] = field(factory=dict)


Script = Callable[[Mapping[str, Any], int], "str | Reply"]
"""Given the body of a request and its number, from 0, returns the text of the answer or a `Reply`."""


@define(eq=False)
class ScriptedApi:
    """The server's requests and its script."""

    url: str
    """The base URL for a client, which ends in `/v1`."""
    script: Script
    embed: Callable[[str], list[float]] | None = None
    """The vector of a text, for `/v1/embeddings`; without it that path is 404."""
    pause_s: float = 0.0
    """Before each answer."""
    bodies: list[dict[str, Any]] = field(factory=list)
    """Of all requests, in the order in which they came."""
    keys: list[str] = field(factory=list)
    under_way: int = 0
    most_under_way: int = 0
    connections: int = 0
    lock: threading.Lock = field(factory=threading.Lock)

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables that direct clients here; the others are empty."""
        empty = dict.fromkeys(("DASHSCOPE_API_KEY", "DASHSCOPE_API_KEY_BACKUP", "DASHSCOPE_BASE_URL"), "")
        return {**empty, "OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": "sk-scripted"}

    def prompts(self) -> list[str]:
        """Return the last message of each request."""
        return [body["messages"][-1]["content"] for body in self.bodies if "messages" in body]


def make_completion(
    text: str | None, *, prompt_tokens: int = 0, completion_tokens: int = 0, finish_reason: str = "stop"
) -> Reply:
    """Return a chat completion with its usage."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    usage["total_tokens"] = prompt_tokens + completion_tokens
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    return Reply(200, {"id": "scripted", "object": "chat.completion", "choices": [choice], "usage": usage})


class _Server(ThreadingHTTPServer):
    request_queue_size = 128
    """Number of simultaneous connections; beyond it some are reset."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect: tests kill them or let them time out."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def scripted_api(script: Script | str = "ok") -> Iterator[ScriptedApi]:
    """Serve until the block ends; a string is the answer to everything."""
    answer: Script = script if callable(script) else lambda body, number: str(script)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def setup(self) -> None:
            super().setup()
            with made.lock:
                made.connections += 1

        def finish(self) -> None:
            super().finish()
            with made.lock:
                made.connections -= 1

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with made.lock:
                number = len(made.bodies)
                made.bodies.append(body)
                made.keys.append((self.headers["authorization"] or "").removeprefix("Bearer "))
                made.under_way += 1
                made.most_under_way = max(made.most_under_way, made.under_way)
            try:
                time.sleep(made.pause_s)
                reply = self._embed(body) if self.path.endswith("/embeddings") else made.script(body, number)
            finally:
                with made.lock:
                    made.under_way -= 1
            self._send(make_completion(reply) if isinstance(reply, str) else reply)

        def _embed(self, body: Mapping[str, Any]) -> Reply:
            if made.embed is None:
                return Reply(404, {"error": {"message": "no embeddings here"}})
            data = [
                {"object": "embedding", "index": index, "embedding": made.embed(text)} for index, text in enumerate(body["input"])
            ]
            return Reply(200, {"object": "list", "data": data, "model": body["model"], "usage": {}})

        def _send(self, reply: Reply) -> None:
            if reply.status == 0:
                self.close_connection = True
                return
            text = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            headers = {"content-type": "application/json", "content-length": str(len(text)), **reply.headers}
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args: Any) -> None:
            """Stay silent."""

    running = _Server(("127.0.0.1", 0), Handler)
    made = ScriptedApi(f"http://127.0.0.1:{running.server_address[1]}/v1", answer)
    thread = threading.Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        running.shutdown()
        running.server_close()
        thread.join()
