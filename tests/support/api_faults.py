"""What goes wrong around any wire API: foreign keys, agents that die, endless bodies, engines that are down, logs that tell.

A module that imports these tests has `BODIES` of the routes that generate, and `COUNTS` of those that count, by path.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.model.gateway.app import make_app
from astuner_devkit import until_so

Bodies = Mapping[str, Any]


@asynccontextmanager
async def clients(stage: Any) -> AsyncIterator[list[httpx.AsyncClient]]:
    """Make a client that goes through the socket and one that does not."""
    root = stage.gateway.base_url.removesuffix("/v1")
    app: Any = make_app(stage.gateway.recorder, model_name="m", max_body_bytes=1 << 20)
    async with (
        httpx.AsyncClient(base_url=root, timeout=20) as socket,
        httpx.AsyncClient(base_url=root, transport=httpx.ASGITransport(app)) as direct,
    ):
        yield [socket, direct]


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


class Slow:
    """Says a token, and nothing more for ever."""

    capabilities = Capabilities()

    def __init__(self) -> None:
        self.under_way = 0

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        self.under_way += 1
        try:
            yield Chunk(ids=[70, 71], logprobs=[-1.0, -2.0])
            await asyncio.Event().wait()
        finally:
            self.under_way -= 1


class Down(Slow):
    """Is not there."""

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        raise ConnectionRefusedError("no engine at the launch code 0451")
        yield


@pytest.mark.asyncio
async def test_a_key_reaches_no_episode_but_its_own(serving: Any, bodies: Bodies, any_path: str) -> None:
    async with serving("yes") as stage, clients(stage) as ways:
        mine, other = stage.recorder, stage.gateway.open_episode(stage.recorder.spec)
        for client in ways:
            key = other.tuner.as_oai_baseurl_apikey().api_key
            response = await client.post(any_path, json=bodies[any_path], headers=bearer(key))
            assert response.status_code == 200
        assert mine.calls == ()
        assert len(other.calls) == (0 if any_path.endswith(("count_tokens", "countTokens")) else 2)


@pytest.mark.asyncio
async def test_an_expired_or_foreign_key_reaches_nothing(serving: Any, bodies: Bodies, any_path: str) -> None:
    async with serving("yes") as stage, clients(stage) as ways:
        own = stage.recorder.tuner.as_oai_baseurl_apikey().api_key
        over = stage.gateway.open_episode(stage.recorder.spec)
        expired = over.tuner.as_oai_baseurl_apikey().api_key
        await over.close()
        secret, _, agent = own.partition(".")
        foreign = [
            expired,
            "0",
            "sk-astuner-0451.WyJhIiwiYSJd",
            secret,
            f"{secret}.",
            f"{secret[:-1]}.{agent}",
            f".{agent}",
            own[::-1],
        ]
        for client in ways:
            for key in foreign:
                for headers in (bearer(key), {"x-api-key": key}):
                    response = await client.post(any_path, json=bodies[any_path], headers=headers)
                    assert response.status_code == 401, key
                    assert (await client.get("/v1/models", headers=headers)).status_code == 401, key
        assert (stage.recorder.calls, over.calls) == ((), ())


AGENT = """
import socket, sys, time
host, port, request = sys.argv[1], int(sys.argv[2]), sys.argv[3].encode()
with socket.create_connection((host, port)) as connection:
    connection.sendall(request)
    if sys.argv[4] == "stream":
        assert b"200 OK" in connection.recv(1000)
    print("asked", flush=True)
    time.sleep(60)
"""


@pytest.mark.asyncio
async def test_killing_the_agents_process_frees_its_slot(serving: Any, bodies: Bodies, api_path: str, way: str) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        url = httpx.URL(stage.gateway.base_url)
        raw = json.dumps({**bodies[api_path], "stream": way == "stream"})
        key = stage.recorder.tuner.as_oai_baseurl_apikey().api_key
        head = f"POST {api_path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        request = f"{head}Content-Length: {len(raw)}\r\n\r\n{raw}"
        command = [sys.executable, "-I", "-S", "-c", AGENT, url.host, str(url.port), request, way]
        agent = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        try:
            assert agent.stdout is not None
            assert await asyncio.wait_for(agent.stdout.readline(), 20) == b"asked\n"
            await until_so(lambda: engine.under_way == 1)
        finally:
            agent.kill()
            await agent.wait()
        await until_so(lambda: engine.under_way == 0 and stage.recorder.calls)
    assert [(call.finish_reason, call.untrained) for call in stage.recorder.calls] == [("abort", "aborted")]


@pytest.mark.asyncio
async def test_a_body_over_the_limit_is_413_before_its_end(serving: Any, bodies: Bodies, any_path: str) -> None:
    async with serving("yes", gateway={"max_body_bytes": 1000}) as stage:
        url = httpx.URL(stage.gateway.base_url)
        key = stage.recorder.tuner.as_oai_baseurl_apikey().api_key
        head = f"POST {any_path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
        chunk = b"190\r\n" + b"y" * 400 + b"\r\n"
        for sent in (
            f"{head}Content-Length: 1001\r\n\r\n".encode(),
            f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + 3 * chunk,
        ):
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(sent)
            assert b" 413 " in await asyncio.wait_for(reader.readline(), 20)
            writer.close()
        async with httpx.AsyncClient(base_url=stage.gateway.base_url.removesuffix("/v1"), headers=bearer(key)) as client:
            assert (await client.post(any_path, json=bodies[any_path])).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_is_down_is_503_with_a_time_to_ask_again(
    serving: Any, bodies: Bodies, api_path: str, stream: bool
) -> None:
    async with serving(engine=Down()) as stage, clients(stage) as ways:
        key = stage.recorder.tuner.as_oai_baseurl_apikey().api_key
        for client in ways:
            response = await client.post(api_path, json={**bodies[api_path], "stream": stream}, headers=bearer(key))
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert [(call.finish_reason, call.untrained) for call in stage.recorder.calls] == [("abort", "engine_error")] * 2


@pytest.mark.asyncio
async def test_the_log_holds_no_key_and_no_word_of_a_body(
    serving: Any,
    bodies: Bodies,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.DEBUG)
    # What clients log is theirs.
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.CRITICAL)

    def fail(raw: bytes) -> Any:
        raise ValueError(raw.decode())

    async with serving("the launch code is 0451") as stage, serving(engine=Down()) as down:
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        key = stage.recorder.tuner.as_oai_baseurl_apikey().api_key
        url = httpx.URL(stage.gateway.base_url)
        async with clients(stage) as ways, clients(down) as others:
            for client in (*ways, *others):
                for path, valid in bodies.items():
                    for body in (
                        valid,
                        {**valid, "stream": True},
                        {**valid, "tools": 0, "messages": "0451", "contents": "0451", "input": 0, "prompt": 0},
                    ):
                        for sent in (key, down.recorder.tuner.as_oai_baseurl_apikey().api_key, f"{key}0"):
                            await client.post(path, json=body, headers=bearer(sent))
            reader, writer = await asyncio.open_connection(url.host, url.port)
            writer.write(
                f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: {key}\r\nContent-Length: 0451 launch code\r\n\r\n".encode()
            )
            assert b"400" in await reader.readline()
            writer.close()
            monkeypatch.setattr("astuner.model.gateway.app.parse_body", fail)
            failed = [await ways[0].post(path, json=bodies[path], headers=bearer(key)) for path in bodies]
        await down.recorder.close()
        loop.set_debug(False)
    out, err = capfd.readouterr()
    logged = caplog.text + out + err
    assert {response.status_code for response in failed} == {500}
    assert logged.count("the gateway failed on a request: ValueError") >= len(bodies)
    secrets = [key, stage.recorder.tuner.remote().secret, down.recorder.tuner.remote().secret, "0451", "launch code"]
    assert [secret for secret in secrets if secret in logged] == []
