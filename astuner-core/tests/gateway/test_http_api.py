"""The API over a real socket, as any HTTP client sees it."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from astuner.errors import AstunerError
from astuner.gateway import Gateway
from astuner.gateway.keys import mint, read_key

USER = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def http(stage: Any) -> AsyncIterator[httpx.AsyncClient]:
    api = stage.recorder.tuner.as_oai_baseurl_apikey("scout")
    async with httpx.AsyncClient(base_url=api.base_url, headers={"Authorization": f"Bearer {api.api_key}"}) as client:
        yield client


async def post(serving: Any, body: Any, **options: Any) -> tuple[httpx.Response, Any]:
    async with serving("yes", **options) as stage, http(stage) as client:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return await client.post("/chat/completions", content=raw), stage.recorder


@pytest.mark.asyncio
async def test_what_sdks_send_is_taken(serving: Any) -> None:
    body = {
        "model": "whatever",
        "messages": [
            {"role": "developer", "content": [{"type": "text", "text": "be"}, {"type": "text", "text": "brief"}]},
            {"role": "user", "name": "friday", "content": [{"type": "text", "text": "hello"}]},
        ],
        "max_tokens": None,
        "max_completion_tokens": 7,
        "temperature": 1,
        "stop": None,
        "user": "me",
        "store": False,
        "metadata": {"some": "thing"},
        "return_token_ids": True,
    }
    response, recorder = await post(serving, body)
    assert response.status_code == 200
    assert recorder.calls[0].messages[0] == {"role": "system", "content": "be\nbrief"}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "messages"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "1"}]}]}, "messages[0].tool_calls[0].function"),
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 2}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": 1.5}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": 1000}, "n"),
        ({"stop": ["a", ""]}, "stop"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"response_format": {"type": "yaml"}}, "response_format"),
        ({"functions": [{"name": "add"}]}, "functions"),
    ],
)
async def test_a_bad_body_is_400_and_names_the_parameter(serving: Any, change: dict[str, Any], param: str) -> None:
    response, recorder = await post(serving, {"messages": USER, **change})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert response.json()["error"]["message"]
    assert recorder.calls == ()


@pytest.mark.asyncio
@pytest.mark.parametrize("body", [b"{", b"[]", b"\xff", b'{"messages": ' + b"[" * 3000])
async def test_what_is_not_a_json_object_is_400(serving: Any, body: bytes) -> None:
    response, _ = await post(serving, body)
    assert response.status_code == 400


@pytest.mark.asyncio
async def test_a_body_over_the_limit_is_413(serving: Any) -> None:
    response, _ = await post(serving, {"messages": USER, "x": "y" * 5000}, gateway={"max_body_bytes": 1000})
    assert response.status_code == 413


@pytest.mark.asyncio
async def test_a_body_over_the_limit_without_a_length_is_413(serving: Any) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(5):
            yield b"y" * 400

    async with serving("yes", gateway={"max_body_bytes": 1000}) as stage, http(stage) as client:
        response = await client.post("/chat/completions", content=parts())
    assert response.status_code == 413


@pytest.mark.asyncio
@pytest.mark.parametrize("header", [None, "Bearer nonsense", "Bearer sk-guessed.WyJhIiwiYSJd", "Basic abc", "Bearer \xe9.x"])
async def test_a_key_of_nobody_is_401(serving: Any, header: str | None) -> None:
    async with serving("yes") as stage, httpx.AsyncClient(base_url=stage.gateway.base_url) as client:
        headers = {"Authorization": header.encode("latin-1")} if header else {}
        response = await client.post("/chat/completions", json={"messages": USER}, headers=headers)
        models = await client.get("/models", headers=headers)
    assert (response.status_code, models.status_code) == (401, 401)
    assert response.json()["error"]["code"] == "invalid_api_key"


@pytest.mark.asyncio
async def test_a_key_reaches_its_own_episode_alone(serving: Any) -> None:
    async with serving("yes") as stage, http(stage) as client:
        other = stage.gateway.open_episode(stage.recorder.spec)
        await client.post("/chat/completions", json={"messages": USER})
        await other.close()
    assert [call.agent for call in stage.recorder.calls] == ["scout"]
    assert other.calls == ()


@pytest.mark.parametrize(("agent", "target"), [("agent", None), ("Ärztin. 医", "a/b.c"), ("", "x")])
def test_a_key_holds_agent_and_target(agent: str, target: str | None) -> None:
    caller = read_key(mint("secret", agent, target))
    assert caller is not None
    assert (caller.secret, caller.agent, caller.target_tag) == ("secret", agent, target or agent)


@pytest.mark.asyncio
async def test_models_and_health(serving: Any) -> None:
    async with serving("yes", gateway={"model_name": "mine"}) as stage, http(stage) as client:
        models = await client.get("/models")
        health = await client.get(stage.gateway.base_url.removesuffix("/v1") + "/healthz")
    assert [model["id"] for model in models.json()["data"]] == ["mine"]
    assert health.json() == {"status": "ok"}


@pytest.mark.asyncio
async def test_other_endpoints_say_what_is_served(serving: Any) -> None:
    async with serving("yes") as stage, http(stage) as client:
        response = await client.post("/responses", json={})
        wrong = await client.get("/chat/completions")
    assert response.status_code == 404
    assert "POST /v1/chat/completions" in response.json()["error"]["message"]
    assert wrong.status_code == 405


@pytest.mark.asyncio
async def test_a_stream_ends_with_done(serving: Any) -> None:
    async with serving("yes") as stage, http(stage) as client:
        response = await client.post("/chat/completions", json={"messages": USER, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [line for line in response.text.split("\n\n") if line]
    assert events[-1] == "data: [DONE]"
    assert all("usage" not in json.loads(event[6:]) for event in events[:-1])


@pytest.mark.asyncio
async def test_penalties_have_no_effect_and_say_so(serving: Any) -> None:
    response, recorder = await post(serving, {"messages": USER, "presence_penalty": 0.5})
    assert response.status_code == 200
    assert recorder.notices == ["scout: 'presence_penalty' has no effect; no engine is asked for it."]


@pytest.mark.asyncio
async def test_a_taken_port_is_named(serving: Any, renderer: Any) -> None:
    async with serving("yes") as stage:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            with pytest.raises(AstunerError, match=rf"gateway.port: cannot listen on 127.0.0.1:{port}"):
                await Gateway(stage.engine, renderer, port=port).start()


@pytest.mark.asyncio
async def test_a_public_url_is_what_agents_are_given(serving: Any) -> None:
    async with serving("yes", gateway={"public_url": "http://node7:9000/"}) as stage:
        assert stage.recorder.tuner.as_oai_baseurl_apikey().base_url == "http://node7:9000/v1"
        answer = await stage.client().chat.completions.create(model="any", messages=USER)
    assert answer.choices[0].message.content == "yes"
