"""A model that says nothing has said "": on every API, whole and streamed, alone and after reasoning that never ends."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

NOTHING = {"the end at once": "", "reasoning that never ends": "<think>\nhm, hm, and"}
USER = [{"role": "user", "content": "hello"}]


@pytest.mark.asyncio
@pytest.mark.parametrize("said", NOTHING.values(), ids=NOTHING)
async def test_anthropic_messages(serving: Any, said: str) -> None:
    ask = {"model": "any", "max_tokens": 100, "messages": USER}
    async with serving(said) as stage:
        whole = (await post(stage, "/v1/messages", ask)).json()
        events = read_events(await post(stage, "/v1/messages", {**ask, "stream": True}))
        again = await post(stage, "/v1/messages", {**ask, "messages": [*USER, answer_of(whole), *USER]})
    assert whole["content"][-1] == {"type": "text", "text": ""}
    assert [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"] == [
        block["type"] for block in whole["content"]
    ]
    assert [event["index"] for event in events if event["type"] == "content_block_stop"] == list(range(len(whole["content"])))
    assert again.status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("said", NOTHING.values(), ids=NOTHING)
async def test_responses(serving: Any, said: str) -> None:
    async with serving(said) as stage:
        whole = (await post(stage, "/v1/responses", {"input": "hello"})).json()
        events = read_events(await post(stage, "/v1/responses", {"input": "hello", "stream": True}))
        again = await post(stage, "/v1/responses", {"input": [*USER, *whole["output"], *USER]})
    items = {event["response"]["status"]: event["response"]["output"] for event in events if "response" in event}
    for output in (whole["output"], items["completed"]):
        assert output[-1]["type"] == "message"
        assert [part["text"] for part in output[-1]["content"]] == [""]
    assert [event["item"]["type"] for event in events if event["type"] == "response.output_item.done"] == [
        item["type"] for item in whole["output"]
    ]
    assert again.status_code == 200


@pytest.mark.asyncio
@pytest.mark.parametrize("said", NOTHING.values(), ids=NOTHING)
async def test_gemini(serving: Any, said: str) -> None:
    ask = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
    async with serving(said) as stage:
        whole = (await post(stage, "/v1beta/models/astuner:generateContent", ask)).json()
        events = read_events(await post(stage, "/v1beta/models/astuner:streamGenerateContent?alt=sse", ask))
        contents = [*ask["contents"], whole["candidates"][0]["content"], *ask["contents"]]
        again = await post(stage, "/v1beta/models/astuner:generateContent", {"contents": contents})
    for found in (whole, events[-1]):
        parts = found["candidates"][0]["content"]["parts"]
        assert [part["text"] for part in parts if not part.get("thought")] == [""]
    assert again.status_code == 200


@pytest.mark.asyncio
async def test_completions(serving: Any) -> None:
    async with serving("") as stage:
        whole = (await post(stage, "/v1/completions", {"prompt": "hello"})).json()
    assert whole["choices"][0]["text"] == ""


@pytest.mark.asyncio
async def test_a_call_alone_brings_no_empty_text(serving: Any) -> None:
    tool = {"name": "add", "input_schema": {"type": "object", "properties": {}}}
    ask = {"model": "any", "max_tokens": 100, "messages": USER, "tools": [tool]}
    async with serving('<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>') as stage:
        whole = (await post(stage, "/v1/messages", ask)).json()
        events = read_events(await post(stage, "/v1/messages", {**ask, "stream": True}))
    assert [block["type"] for block in whole["content"]] == ["tool_use"]
    assert [event["content_block"]["type"] for event in events if event["type"] == "content_block_start"] == ["tool_use"]


async def post(stage: Any, path: str, body: Any) -> httpx.Response:
    api = stage.recorder.tuner.as_oai_baseurl_apikey()
    headers = {"authorization": f"Bearer {api.api_key}"}
    async with httpx.AsyncClient(base_url=api.base_url.removesuffix("/v1"), headers=headers) as client:
        return await client.post(path, json=body)


def read_events(response: httpx.Response) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in response.text.split("\n") if line.startswith("data: ")]


def answer_of(message: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": message["content"]}
