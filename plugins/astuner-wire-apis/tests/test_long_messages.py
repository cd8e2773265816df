"""A body that cannot fit is refused in the shape of its API, and others go on."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

HUGE = "word " * 400_000
ASK = [{"role": "user", "content": "hello"}]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


HUGE_BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "completions": ("/v1/completions", {"prompt": HUGE}),
    "completions, ids": ("/v1/completions", {"prompt": [5] * 200_000}),
    "completions, several": ("/v1/completions", {"prompt": ["hello", HUGE]}),
    "responses": ("/v1/responses", {"input": HUGE}),
    "responses, instructions": ("/v1/responses", {"input": "hello", "instructions": HUGE}),
    "messages": ("/v1/messages", {"messages": [user(HUGE)], "max_tokens": 9}),
    "messages, system": ("/v1/messages", {"messages": ASK, "system": HUGE, "max_tokens": 9}),
    "count_tokens": ("/v1/messages/count_tokens", {"messages": [user(HUGE)]}),
}


def client_of(stage: Any, recorder: Any) -> httpx.AsyncClient:
    key = recorder.tuner.as_oai_baseurl_apikey().api_key
    root = stage.gateway.base_url.removesuffix("/v1")
    return httpx.AsyncClient(base_url=root, headers={"Authorization": f"Bearer {key}"}, timeout=None, trust_env=False)


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", HUGE_BODIES)
async def test_a_prompt_that_cannot_fit_is_refused_in_the_shape_of_a_full_context(serving: Any, kind: str) -> None:
    path, body = HUGE_BODIES[kind]
    async with serving("yes", max_model_len=500) as stage, client_of(stage, stage.recorder) as client:
        refused = await client.post(path, json={"model": "m", **body})
        short = await client.post(path, json={"model": "m", **body, **_shorten(body, "word " * 600)})
        assert (await client.post("/v1/chat/completions", json={"model": "m", "messages": ASK})).status_code == 200
    assert refused.status_code == 400
    assert refused.json().keys() == {"error"} | ({"type"} if path.startswith("/v1/messages") else set())
    if path != "/v1/messages/count_tokens":
        assert short.status_code == 400
        assert refused.json()["error"].keys() == short.json()["error"].keys()
        assert {**refused.json()["error"], "message": ""} == {**short.json()["error"], "message": ""}
    assert "maximum context length is 500 tokens" in refused.json()["error"]["message"]
    assert len(stage.recorder.calls) == 1


def _shorten(body: dict[str, Any], text: str) -> dict[str, Any]:
    if "prompt" in body:
        return {"prompt": text}
    return {"input": text} if "input" in body else {"messages": [user(text)]}
