"""Whole connections against gateway, environment server, trace collector and viewer: no more answers than requests, and no limit
that depends on how the bytes are cut.

`ASTUNER_FUZZ_REQUESTS` says how many connections each server gets; `ASTUNER_FUZZ_SEED` makes them others.
"""

from __future__ import annotations

import asyncio
import email.parser
import io
import itertools
import json
import random
import re
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest
from attacked_servers import REQUESTS, SEED, gateway, started
from attrs import field, frozen

AT_ONCE = 16
PATIENCE_S = 60.0
PATHS = {
    "gateway": ("/v1/models", "/v1/chat/completions"),
    "environments": ("/healthz", "/get_env_profile"),
    "collector": ("/health", "/v1/traces"),
    "viewer": ("/api/runs", "/api/config/explain"),
}
BODIES = {
    "gateway": {"model": "m", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 5},
    "environments": {"env_type": "countdown", "params": {"split": "train"}},
    "collector": {"resourceSpans": []},
    "viewer": {"unknown": 1},
}
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@frozen(kw_only=True)
class Door:
    """A server, and how a client that may use it calls it."""

    kind: str
    port: int
    access: bytes
    """Headers that let a client in."""
    process: psutil.Process = field(factory=psutil.Process)

    @property
    def host(self) -> bytes:
        return b"Host: 127.0.0.1:%d\r\n" % self.port

    def ask(self, dice: random.Random, *, headers: bytes = b"", host: bytes | None = None) -> bytes:
        """Return a valid request, with or without a body."""
        start = self.access + (self.host if host is None else host) + headers
        get, post = PATHS[self.kind]
        if dice.random() < 0.5:
            return b"GET %s HTTP/1.1\r\n%s\r\n" % (get.encode(), start)
        body = json.dumps(BODIES[self.kind]).encode()
        head = b"Content-Type: application/json\r\nOrigin: http://127.0.0.1:%d\r\n" % self.port
        if dice.random() < 0.5:
            return b"POST %s HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n%s" % (post.encode(), start + head, len(body), body)
        framed = chunk(body, dice) + b"0\r\n\r\n"
        return b"POST %s HTTP/1.1\r\n%sTransfer-Encoding: chunked\r\n\r\n%s" % (post.encode(), start + head, framed)


def chunk(body: bytes, dice: random.Random) -> bytes:
    found = b""
    while body:
        size = min(len(body), dice.choice((1, 2, 7, 100)))
        extension = dice.choice((b"", b"", b";a=b", b';a="' + b"c" * dice.randrange(300) + b'"'))
        found += b"%x%s\r\n%s\r\n" % (size, extension, body[:size])
        body = body[size:]
    return found


def make_connection(door: Door, dice: random.Random) -> tuple[str, bytes, int, bool]:
    """Return a form, the bytes of a connection, how many answers they may have at most, and whether they may have a good one."""
    form = dice.choice(("pipelined", "hidden", "both", "trailing", "oversized", "hostless", "upgrade"))
    if form == "pipelined":
        number = dice.choice((1, 2, 5, 16, 17, 18, 40, 400))
        return form, b"".join(door.ask(dice) for _ in range(number)), number, True
    post = b"POST %s HTTP/1.1\r\n" % PATHS[door.kind][1].encode()
    if form == "hidden":
        hidden = SMUGGLED * dice.randrange(1, 5)
        framed = b"Content-Length: %d\r\n\r\n%s" % (len(hidden), hidden)
        if dice.random() < 0.5:
            framed = b"Transfer-Encoding: chunked\r\n\r\n" + chunk(hidden, dice) + b"0\r\n\r\n"
        return form, post + door.access + door.host + framed, 1, False
    if form == "both":
        odd = dice.choice(
            (
                b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
                b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                b"Transfer-Encoding: chunked, identity\r\n",
                b"Transfer-Encoding: xchunked\r\n",
                b"Content-Length: 4\r\nContent-Length: 60\r\n",
                b"Content-Length : 4\r\n",
                b"Content-Length: +4\r\n",
                b"Content-Length: 0x4\r\n",
            )
        )
        return form, post + door.access + door.host + odd + b"\r\n0\r\n\r\n" + SMUGGLED, 1, False
    if form == "trailing":
        framed = b"Transfer-Encoding: chunked\r\n\r\n" + chunk(json.dumps(BODIES[door.kind]).encode(), dice)
        return form, post + door.host + framed + b"0\r\n" + door.access + b"\r\n", 1, False
    if form == "oversized":
        size = dice.choice((66_000, 70_000, 130_000, 300_000))
        large = dice.choice((b"A: " + b"b" * size + b"\r\n", b"A: b\r\n" * (size // 6), (b"A: " + b"b" * 20_000 + b"\r\n") * 4))
        if dice.random() < 0.3:
            framed = b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + large + b"\r\n"
            return form, post + door.access + door.host + framed, 1, True
        return form, door.ask(dice, headers=large), 1, False
    if form == "hostless":
        names = (
            b"",
            door.host * 2,
            b"Host:\r\n",
            b"Host: localhost:1@evil\r\n",
            b"Host: [::1]evil\r\n",
            b"Host: evil.example\r\n",
        )
        return form, door.ask(dice, host=dice.choice(names)), 1, False
    request = door.ask(dice, headers=b"Connection: Upgrade\r\nUpgrade: %s\r\n" % dice.choice((b"websocket", b"h2c")))
    return form, request + SMUGGLED, 1, True


async def talk(door: Door, raw: bytes, dice: random.Random) -> list[int]:
    """Send the bytes in pieces, and the last request of the connection; return the statuses of all answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
    last = b"GET / HTTP/1.1\r\n" + door.access + door.host + b"Connection: close\r\n\r\n"
    found, raw = b"", raw + last
    with suppress(ConnectionError, TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            for _ in range(dice.choice((0, 0, 1, 3))):
                cut = dice.randrange(len(raw))
                writer.write(raw[:cut])
                await writer.drain()
                await asyncio.sleep(0)
                raw = raw[cut:]
            writer.write(raw)
            while part := await reader.read(1 << 16):
                found += part
    writer.close()
    return read_statuses(found)


def read_statuses(found: bytes) -> list[int]:
    """Return the statuses of answers; the last one may be incomplete."""
    statuses: list[int] = []
    with io.BytesIO(found) as answers:
        while line := answers.readline():
            statuses.append(int(line.split()[1]))
            headers = email.parser.BytesParser().parsebytes(b"".join(itertools.takewhile(bytes.strip, answers)))
            if "content-length" in headers:
                answers.read(int(headers["content-length"]))
            elif "transfer-encoding" in headers:
                while size := int(answers.readline() or b"0", 16):
                    answers.read(size + 2)
                answers.readline()
    return statuses


async def attack(door: Door) -> Counter[str]:
    dice, seen, left = random.Random(f"{SEED}{door.kind}"), Counter[str](), list(range(REQUESTS))

    async def work() -> None:
        while left:
            left.pop()
            form, raw, most, may_succeed = make_connection(door, dice)
            statuses = await talk(door, raw, dice)
            shown = f"{form}: {raw[:600]!r}: {statuses}"
            # The last request of the connection may be answered too.
            assert len(statuses) <= most + 1, shown
            assert all(status < 500 or status == 503 for status in statuses), shown
            assert may_succeed or not statuses or statuses[0] >= 400, shown
            if form == "pipelined" and most <= 16:
                assert len(statuses) == most + 1, shown
            seen[f"{form} {statuses[0] if statuses else 'closed'}"] += 1

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return seen


@contextmanager
def program(kind: str, tmp_path: Path) -> Iterator[Door]:
    """Run one of the servers that are programs."""
    log, access = tmp_path / "log", b"Authorization: Bearer 0123456789abcdef\r\n"
    (tmp_path / "runs").mkdir()
    commands = {
        "environments": ("env", "serve", "--env", "countdown", "--port", "0", "--token", "0123456789abcdef"),
        "collector": ("trace", "collect", "--out", str(tmp_path / "traces.jsonl"), "--port", "0", "--token", "0123456789abcdef"),
        "viewer": ("logview", "show", str(tmp_path / "runs"), "--no-open"),
    }
    with started(*commands[kind], output=log) as ((_, port), process):
        if kind == "viewer":
            address = re.search(r"http://127\.0\.0\.1:\S+", log.read_text())
            assert address is not None
            answer = httpx.get(address[0], trust_env=False)
            access = b"Cookie: " + answer.headers["set-cookie"].partition(";")[0].encode() + b"\r\n"
        yield Door(kind=kind, port=port, access=access, process=psutil.Process(process.pid))
    assert "Traceback" not in log.read_text()
    assert len(log.read_text()) < 4000, log.read_text()[:4000]


@asynccontextmanager
async def gateway_door() -> AsyncIterator[Door]:
    async with gateway() as ((_, port), key):
        yield Door(kind="gateway", port=port, access=b"Authorization: Bearer " + key.encode() + b"\r\n")


@pytest.mark.asyncio
async def test_the_gateway_gives_no_more_answers_than_it_is_asked(caplog: pytest.LogCaptureFixture) -> None:
    async with gateway_door() as door:
        print(door.kind, dict(sorted((await attack(door)).items())))
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize("kind", ["environments", "collector", "viewer"])
def test_a_server_gives_no_more_answers_than_it_is_asked(kind: str, tmp_path: Path) -> None:
    if kind == "collector":
        pytest.importorskip("opentelemetry.proto")
    with program(kind, tmp_path) as door:
        print(kind, dict(sorted(asyncio.run(attack(door)).items())))


@pytest.mark.parametrize("kind", ["environments", "collector", "viewer"])
def test_a_server_ends_and_stays_small_while_greedy_connections_are_held(kind: str, tmp_path: Path) -> None:
    if kind == "collector":
        pytest.importorskip("opentelemetry.proto")
    with program(kind, tmp_path) as door:
        before = door.process.memory_info().rss
        held = [socket.create_connection(("127.0.0.1", door.port)) for _ in range(40)]
        request = b"GET / HTTP/1.1\r\n" + door.host + b"\r\n"
        for client in held:
            client.setblocking(False)
            left = request * ((1 << 20) // len(request))
            with suppress(OSError):
                while left:
                    left = left[client.send(left) :]
        with socket.create_connection(("127.0.0.1", door.port), timeout=60) as good:
            good.sendall(request)
            assert good.recv(9) == b"HTTP/1.1 "
        assert door.process.memory_info().rss - before < 64 << 20
        door.process.terminate()
        door.process.wait(30)
        for client in held:
            client.close()
