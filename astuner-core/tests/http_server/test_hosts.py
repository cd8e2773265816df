"""A server on loopback answers only to names that are its own."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from astuner.model.http_server import guard_hosts, is_loopback
from astuner.model.http_server.hosts import Receive, Scope, Send


async def accept(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def call(host: str, bound: str = "127.0.0.1", **options: Any) -> httpx.Response:
    app: Any = guard_hosts(accept, bound, **options)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app)) as client:
        return await client.post("http://127.0.0.1:8/", headers={"host": host})


@pytest.mark.asyncio
@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8", "127.0.0.1:8", "127.0.0.1", "[::1]:8", "127.1.2.3", "localhost."])
async def test_names_of_loopback_are_served(host: str) -> None:
    assert (await call(host)).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.1:8",
        "[::2]:8",
        "@",
        "",
        "localhost:1@evil",
        "localhost:evil",
        "evil@localhost",
        "localhost/evil",
        "localhost, evil.example",
        "[::1]evil",
        "[::1]:8:evil",
        "[localhost]",
        "::1",
    ],
)
async def test_foreign_names_are_refused(host: str) -> None:
    answer = await call(host)
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "foreign_host"


@pytest.mark.asyncio
async def test_the_public_name_is_served() -> None:
    assert (await call("agents.example:8", public_url="https://agents.example/v1")).status_code == 200


@pytest.mark.asyncio
async def test_a_server_that_other_machines_reach_has_any_name() -> None:
    assert (await call("agents.example", "0.0.0.0")).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("bound", ["127.0.0.1", "0.0.0.0"])
@pytest.mark.parametrize("hosts", [(), (b"localhost", b"localhost")], ids=["none", "two"])
async def test_a_request_has_one_host(hosts: tuple[bytes, ...], bound: str) -> None:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"host", host) for host in hosts]}
    await guard_hosts(accept, bound)(scope, None, send)  # type: ignore[arg-type] # nothing is received
    assert sent[0]["status"] == 400


@pytest.mark.parametrize("host", ["0.0.0.0", "", "::", "10.0.0.1", "example.com"])
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)
