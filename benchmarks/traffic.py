"""The traffic of the recording benchmarks: conversations with tool calls, the same for every server, and a bare HTTP client."""

from __future__ import annotations

import asyncio
import json
import re
import time
from typing import Any

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
        },
    }
    for name, description in [("add", "Add two integers."), ("search", "Look a pair of numbers up in the table of the task.")]
]
SYSTEM = "You are a careful assistant. Use the tools to find what the user asks for, one step at a time; say what you do. " * 3
ANSWER = (
    "The table has to be searched next, since the last result is not the answer yet."
    '<tool_call>\n{"name": "search", "arguments": {"a": 17, "b": 4}}\n</tool_call>'
)
"""What the model says each time, as the template writes it, without the end of its turn."""

CHAT = [{"role": ("user", "assistant")[turn % 2], "content": "hello world " * 20} for turn in range(3)]
"""A short chat without tools, the same each time but for its name."""

SAYS = re.compile(rb'"content": ?"[^"]')
"""Found in the first part of a stream that holds something to read."""


def first_messages(name: str) -> list[dict[str, Any]]:
    """Return the first messages of a conversation; `name` makes it unlike others."""
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"Task {name}: what is the sum of the two rows?"}]


def results(name: str, turn: int, reply: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the reply as a client sends it back, and what the tool found."""
    found = f"Result {turn} of task {name}: the row holds 12 entries, none of which is the one that is looked for."
    calls = reply.get("tool_calls") or ()
    return [reply, *({"role": "tool", "tool_call_id": call["id"], "content": found} for call in calls)]


class Connection:
    """One kept-alive HTTP/1.1 connection."""

    def __init__(self, port: int, path: str, key: str) -> None:
        """`key` goes into the Authorization header."""
        self._port = port
        self._head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {key}\r\n"
        self._head += "Content-Type: application/json\r\n"

    async def open(self) -> None:
        """Connect."""
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)

    def close(self) -> None:
        """Hang up."""
        self._writer.close()

    async def post(self, body: bytes) -> tuple[bytes, float, float]:
        """Return the answer's body, and the seconds to its first part and to its end."""
        began = time.perf_counter()
        self._writer.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        parts = []
        first = None
        _, declared, length = head.partition(b"content-length:")
        if declared:
            parts.append(await self._reader.readexactly(int(length.partition(b"\r\n")[0])))
        else:
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                parts.append((await self._reader.readexactly(size + 2))[:-2])
                if first is None and SAYS.search(parts[-1]):
                    first = time.perf_counter() - began
            await self._reader.readexactly(2)
        took = time.perf_counter() - began
        answer = b"".join(parts)
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"{head!r} {answer!r}")
        return answer, first or took, took


async def converse(connection: Connection, name: str, turns: int, *, stream: bool = False) -> list[tuple[float, float]]:
    """Hold one conversation; return the seconds to the first part and to the end of each answer."""
    messages = first_messages(name)
    seconds = []
    for turn in range(turns):
        body = {"model": "m", "messages": messages, "tools": TOOLS, "temperature": 1.0, "stream": stream}
        answer, first, took = await connection.post(json.dumps(body).encode())
        seconds.append((first, took))
        reply = streamed(answer) if stream else json.loads(answer)["choices"][0]["message"]
        messages += results(name, turn, reply)
    return seconds


async def chat(connection: Connection, name: str, turns: int) -> list[tuple[float, float]]:
    """Send short chats that have nothing to do with each other; return as `converse` does."""
    seconds = []
    for turn in range(turns):
        body = {"model": "m", "messages": [{"role": "system", "content": f"{name}/{turn}"}, *CHAT], "temperature": 1.0}
        _, first, took = await connection.post(json.dumps(body).encode())
        seconds.append((first, took))
    return seconds


def streamed(answer: bytes) -> dict[str, Any]:
    """Put the message of a stream together."""
    content, calls = "", []
    for line in answer.split(b"\n\n"):
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                content += choice["delta"].get("content") or ""
                calls += choice["delta"].get("tool_calls") or []
    return {"role": "assistant", "content": content, "tool_calls": [{k: v for k, v in c.items() if k != "index"} for c in calls]}
