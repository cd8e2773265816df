"""Strangers at the doors of gateway, trace collector, environment server and viewer: each is answered or sent away, and logs
stay quiet.

`ASTUNER_FUZZ_REQUESTS` says how many requests each server gets; `ASTUNER_FUZZ_SEED` makes them others.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import re
from collections import Counter
from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest
from attacked_servers import REQUESTS, SEED, gateway, started

AT_ONCE = 32
PATIENCE_S = 0.5
"""For an answer to a request that may have no end; then this side closes the connection."""

LINE = re.compile(rb"HTTP/1\.1 (\d\d\d) ")
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5}
SPAN = {"traceId": "0" * 31 + "1", "spanId": "0" * 15 + "1", "name": "n", "startTimeUnixNano": "1", "endTimeUnixNano": "2"}
TRACES = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}
VALID: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "gateway": [
        ("/v1/chat/completions", CHAT),
        ("/v1/chat/completions", {**CHAT, "stream": True}),
        ("/v1/completions", {"model": "m", "prompt": "hello", "max_tokens": 5}),
        ("/v1/responses", {"model": "m", "input": "hello"}),
        ("/v1/messages", CHAT),
        ("/v1/messages/count_tokens", CHAT),
    ],
    "collector": [("/v1/traces", TRACES), ("/v1/feedback", {"conversation_id": "c", "thumbs": "up", "comment": "é"})],
    "environments": [
        ("/get_env_profile", {"env_type": "countdown", "params": {"split": "train"}}),
        ("/step", {"instance_id": "nobody", "messages": {"role": "assistant", "content": "1+1"}}),
        ("/create", {"env_type": "countdown", "task_id": "nothing"}),
        ("/evaluate", {"instance_id": "nobody", "params": {"sparse": True}}),
        ("/release", {"instance_id": "nobody"}),
    ],
}
JUNK: tuple[Any, ...] = (None, True, -1, 2**63, 1e308, "", "\ud800", "\x00", "a" * 3000, [], {}, [[]], [{}], {"a": {}}, "\udfff")
HEADERS = (
    b"Host: evil.example\r\n",
    b"Host: a\r\nHost: b\r\n",
    b"Content-Encoding: gzip\r\n",
    b"Content-Encoding: br\r\n",
    b"Content-Type: text/plain\r\n",
    b"Content-Type: application/x-protobuf\r\n",
    b"Authorization: Bearer \xff\xfe\r\n",
    b"Authorization: Basic AAAA\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Upgrade: websocket\r\nConnection: upgrade\r\n",
    b"Expect: 100-continue\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n",
    b"A: " + b"b" * 70_000 + b"\r\n",
    b"A: b\r\n" * 3000,
    b"\x00: \x00\r\n",
    b" folded\r\n",
    b": nothing\r\n",
)


def make_request(kind: str, key: str, dice: random.Random) -> bytes:
    path, valid = dice.choice(VALID[kind])
    body = mutate_body(json.loads(json.dumps(valid)), dice)
    method = dice.choice([b"POST"] * 8 + [b"GET", b"OPTIONS", b"PUT", b"BREW", b"\x00"])
    path = dice.choice([path] * 8 + [f"{path}/..", f"//{path}?a=%ff", "/" + "a" * 5000, "/%00", "*", "http://evil.example/"])
    extra = b"".join(dice.choice(HEADERS) for _ in range(dice.choice((0, 0, 0, 1, 2))))
    length = dice.choice([len(body)] * 10 + [0, len(body) + 1, max(0, len(body) - 1)])
    head = (
        f"{path} HTTP/{dice.choice(['1.1'] * 8 + ['1.0', '2.0', '9'])}\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    head += f"Authorization: Bearer {key}\r\nContent-Length: {length}\r\n"
    raw = method + b" " + head.encode() + extra + b"\r\n" + body
    if dice.random() < 0.15:
        start, end = sorted((dice.randrange(len(raw)), dice.randrange(len(raw))))
        raw = dice.choice((raw[:start], raw[start:], raw[:start] + dice.randbytes(5) + raw[end:], raw + raw, dice.randbytes(300)))
    return raw


def mutate_body(body: Any, dice: random.Random) -> bytes:
    for _ in range(dice.choice((0, 1, 1, 2))):
        node, key = body, None
        while isinstance(node, dict | list) and node and (key is None or dice.random() < 0.6):
            parent, key = node, dice.choice(list(node)) if isinstance(node, dict) else dice.randrange(len(node))
            node = parent[key]
        parent[key] = deepcopy(dice.choice(JUNK))
    raw = json.dumps(body).encode()
    return dice.choice([raw] * 8 + [gzip.compress(raw), raw[:-1], b"[" * 5000, b'{"a":' * 3000, dice.randbytes(50), b""])


async def send(address: tuple[str, int], raw: bytes) -> int:
    """Return the status of the answer, or 0 if there is none."""
    reader, writer = await asyncio.open_connection(*address)
    found = b""
    with suppress(ConnectionError):
        writer.write(raw)
        await writer.drain()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                while not LINE.match(found) and (part := await reader.read(4096)):
                    found += part
    writer.close()
    match = LINE.match(found)
    if match is None:
        return 0
    status = int(match[1])
    # Only an environment's own failure, and a place that is taken, have a status from 500, with a reason.
    assert status < 500 or status == 503, f"{raw[:2000]!r}: {found!r}"
    return status


async def attack(kind: str, address: tuple[str, int], key: str) -> Counter[int]:
    dice = random.Random(f"{SEED}{kind}")
    sent = [make_request(kind, key, dice) for _ in range(REQUESTS)]
    seen: Counter[int] = Counter()

    async def work() -> None:
        while sent:
            seen[await send(address, sent.pop())] += 1

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return seen


def check(kind: str, seen: Counter[int], log: str) -> None:
    print(f"{kind}: {dict(sorted(seen.items()))}")
    assert seen[200] > 0
    assert sum(seen[status] for status in range(400, 500)) > REQUESTS / 10
    assert "Traceback" not in log, log[-4000:]
    assert len(log) < 4000, log[:4000]


@pytest.mark.asyncio
async def test_the_gateway(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway() as (address, key):
        seen = await attack("gateway", address, key)
        async with httpx.AsyncClient(base_url=f"http://{address[0]}:{address[1]}", trust_env=False) as client:
            answer = await client.post("/v1/chat/completions", json=CHAT, headers={"Authorization": f"Bearer {key}"})
            assert answer.status_code == 200
    check("gateway", seen, "\n".join(record.getMessage() for record in caplog.records if record.levelname != "DEBUG"))


def test_the_trace_collector(tmp_path: Path) -> None:
    pytest.importorskip("opentelemetry.proto")
    log = tmp_path / "log"
    with started("trace", "collect", "--out", str(tmp_path / "traces.jsonl"), "--port", "0", output=log) as (address, _):
        seen = asyncio.run(attack("collector", address, "x"))
        assert httpx.get(f"http://{address[0]}:{address[1]}/health", trust_env=False).status_code == 200
        evil = {"host": "evil.example"}
        feedback = httpx.post(
            f"http://{address[0]}:{address[1]}/v1/feedback", json={"conversation_id": "c", "score": 1}, headers=evil
        )
        assert feedback.status_code == 403
    check("collector", seen, log.read_text())
    assert all(json.loads(line) for line in (tmp_path / "traces.jsonl").read_text().splitlines())


def test_the_environment_server(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with started("env", "serve", "--env", "countdown", "--port", "0", "--no-token", output=log) as (address, _):
        seen = asyncio.run(attack("environments", address, "x"))
        assert httpx.get(f"http://{address[0]}:{address[1]}/healthz", trust_env=False).status_code == 200
        evil = {"host": "evil.example"}
        assert httpx.post(f"http://{address[0]}:{address[1]}/release", json={}, headers=evil).status_code == 403
    check("environments", seen, log.read_text())
