from __future__ import annotations

from typing import Any

import httpx
import pytest

from astuner_vllm.access import RequireKey


async def hello(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"hello"})


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> httpx.AsyncClient:
    monkeypatch.setenv("VLLM_API_KEY", "right")
    return httpx.AsyncClient(transport=httpx.ASGITransport(RequireKey(hello)), base_url="http://here")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "path", ["/v1/models", "/update_weights", "/collective_rpc", "/", "/health/pause", "/versions", "//health"]
)
@pytest.mark.parametrize("given", [None, "Bearer wrong", "right", "Bearer right ", "Basic right"])
async def test_no_path_is_open_without_the_key(client: httpx.AsyncClient, path: str, given: str | None) -> None:
    answer = await client.post(path, headers={"authorization": given} if given else {})
    assert answer.status_code == 401


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/v1/models", "/update_weights", "/health"])
async def test_the_key_opens_every_path(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.post(path, headers={"authorization": "Bearer right"})
    assert (answer.status_code, answer.text) == (200, "hello")


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/health", "/ping", "/version"])
async def test_that_a_server_lives_is_no_secret(client: httpx.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize(("headers", "refused"), [([], True), ([(b"authorization", b"Bearer right")], False)])
async def test_a_websocket_without_the_key_is_closed(
    headers: list[tuple[bytes, bytes]], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VLLM_API_KEY", "right")
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": "/v1/realtime", "headers": headers}
    await RequireKey(hello)(scope, None, send)  # type: ignore[arg-type]  # nothing is received
    assert (sent == [{"type": "websocket.close", "code": 1008}]) == refused


def test_a_server_without_a_key_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    with pytest.raises(KeyError, match="VLLM_API_KEY"):
        RequireKey(hello)
