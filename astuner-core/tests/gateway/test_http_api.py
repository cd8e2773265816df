"""The API over a real socket, as any HTTP client sees it."""

from __future__ import annotations

import json
import socket
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import openai
import pytest
from openai_fields import (  # noqa: F401 - these tests are run for the paths below
    test_errors_have_one_shape_in_every_api_of_openai,
    test_every_field_takes_or_refuses_a_value_of_any_type,
    test_numbers_and_nestings_that_nothing_could_carry_are_400,
)

from astuner.contract.errors import AstunerError
from astuner.model.gateway import Gateway
from astuner.model.gateway.api_keys import mint, new_secret, read_key

USER = [{"role": "user", "content": "hello"}]

ADD = {"name": "add", "parameters": {"type": "object"}}

BODIES: dict[str, dict[str, Any]] = {
    "/chat/completions": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "hello"}], "name": "me"},
            {"role": "assistant", "content": "hi", "reasoning_content": "hm", "tool_calls": [{"id": "1", "function": ADD}]},
            {"role": "tool", "content": "3", "tool_call_id": "1"},
        ],
        "tools": [{"type": "function", "function": ADD}],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
        "n": 1,
        "stop": ["x"],
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 1,
        "max_tokens": 5,
        "max_completion_tokens": 5,
        "temperature": 1,
        "top_p": 1,
        "top_k": 5,
        "stream": False,
        "stream_options": {},
        "response_format": {"type": "json_schema", "json_schema": {"schema": {}}},
        "chat_template_kwargs": {},
        "reasoning_effort": "low",
        "modalities": ["text"],
        "functions": [],
        "logit_bias": {},
    },
}
COUNTS: dict[str, Any] = {}


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
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": "usage"}, "stream_options"),
        ({"chat_template_kwargs": []}, "chat_template_kwargs"),
        ({"logprobs": 2}, "logprobs"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"function": "add"}]}]}, "messages[0].tool_calls[0].function"),
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
@pytest.mark.parametrize(
    "header",
    [None, "Bearer nonsense", "Bearer sk-guessed.WyJhIiwiYSJd", "Basic abc", "Bearer \xe9.x", "Bearer a.NQ", "Bearer a.W10"],
)
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


@pytest.mark.parametrize("who", ["[" * 5000, '["\\ud800", "x"]', "5", "[1, 2]", '{"agent": 1}', "null"])
def test_what_no_tuner_wrote_is_no_key(who: str) -> None:
    assert read_key(f"secret.{urlsafe_b64encode(who.encode()).decode()}") is None


def test_an_episode_has_192_random_bits() -> None:
    secrets = {new_secret().removeprefix("sk-astuner-") for _ in range(100)}
    assert [len(urlsafe_b64decode(secret)) * 8 for secret in secrets] == [192] * 100


@pytest.mark.asyncio
async def test_models_and_health(serving: Any) -> None:
    async with serving("yes", gateway={"model_name": "mine"}) as stage, http(stage) as client:
        models = await client.get("/models")
        health = await client.get(stage.gateway.base_url.removesuffix("/v1") + "/healthz")
    assert [model["id"] for model in models.json()["data"]] == ["mine"]
    assert health.json() == {"status": "ok"}


@pytest.mark.asyncio
async def test_a_model_is_found_by_its_name(serving: Any) -> None:
    async with serving("yes", gateway={"model_name": "Qwen/Qwen3-8B"}) as stage:
        client = stage.socket_client()
        assert (await client.models.retrieve("Qwen/Qwen3-8B")).id == "Qwen/Qwen3-8B"
        with pytest.raises(openai.NotFoundError, match="'Qwen/Qwen3-8B' is"):
            await client.models.retrieve("gpt-5")


@pytest.mark.asyncio
@pytest.mark.parametrize("base", ["", "/v1/v1"])
async def test_a_base_url_with_none_or_two_versions_names_the_right_path(serving: Any, base: str) -> None:
    async with serving("yes") as stage, http(stage) as client:
        response = await client.post(stage.gateway.base_url.removesuffix("/v1") + base + "/chat/completions", json={})
    assert response.status_code == 404
    assert " is not served; /v1/chat/completions is: " in response.json()["error"]["message"]


@pytest.mark.asyncio
async def test_other_endpoints_say_what_is_served(serving: Any) -> None:
    async with serving("yes") as stage, http(stage) as client:
        response = await client.post("/embeddings", json={})
        wrong = await client.get("/chat/completions")
    assert response.status_code == 404
    assert "POST /v1/chat/completions" in response.json()["error"]["message"]
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


@pytest.mark.asyncio
async def test_a_stream_ends_with_done(serving: Any) -> None:
    async with serving("yes") as stage, http(stage) as client:
        response = await client.post("/chat/completions", json={"messages": USER, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = [line for line in response.text.split("\n\n") if line]
    assert events[-1] == "data: [DONE]"
    assert all("usage" not in json.loads(event[6:]) for event in events[:-1])


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("presence_penalty", 0.5),
        ("frequency_penalty", 0.5),
        ("repetition_penalty", 1.1),
        ("min_p", 0.1),
        ("logit_bias", {"17": -100}),
        ("min_tokens", 3),
        ("stop_token_ids", [17]),
        ("structured_outputs", {"regex": "[0-9]+"}),
        ("guided_choice", ["yes", "no"]),
        ("continue_final_message", True),
    ],
)
async def test_other_ways_to_bend_the_distribution_have_no_effect_and_say_so(serving: Any, name: str, value: Any) -> None:
    response, recorder = await post(serving, {"messages": USER, name: value})
    assert response.status_code == 200
    assert recorder.notices == [f"scout: '{name}' has no effect; engines do not support it."]
    assert recorder.calls[0].untrained is None


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
