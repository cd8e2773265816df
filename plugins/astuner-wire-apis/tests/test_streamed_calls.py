"""`model.streamed_calls: pieces`: what a client joins is what it gets whole, and what is recorded."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from made_renderers import build_tokenizer

from astuner.contract.token_streams import stream_ids
from astuner.model.rendering import TemplateRenderer

USER = [{"role": "user", "content": "hello"}]
ARGUMENTS = '{"city":  "Rome \\"}\\"", "days": [1, {"x": "</tool_call>"}]}'
CALL = f'let me see\n<tool_call>\n{{"name": "look", "arguments": {ARGUMENTS}}}\n</tool_call>'
SAID = {
    "complete": (CALL, ARGUMENTS),
    "cut off": (CALL.partition("days")[0], ARGUMENTS.partition("days")[0]),
    "broken": (CALL.replace("[1,", "[1,,"), ARGUMENTS.replace("[1,", "[1,,")),
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
LOOK = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}

every_answer = pytest.mark.parametrize(("said", "arguments"), SAID.values(), ids=SAID)


@pytest.fixture(scope="module")
def renderer() -> TemplateRenderer:
    return TemplateRenderer(build_tokenizer(), streamed_calls="pieces")


async def post(stage: Any, path: str, body: dict[str, Any]) -> Any:
    api = stage.recorder.tuner.as_oai_baseurl_apikey()
    headers = {"authorization": f"Bearer {api.api_key}", "x-goog-api-key": api.api_key}
    async with httpx.AsyncClient(base_url=api.base_url.removesuffix("/v1"), headers=headers) as client:
        response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    if "stream" not in path and not body.get("stream"):
        return response.json()
    lines = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def check_recorded(stage: Any, arguments: str) -> None:
    """Check what is recorded of a streamed answer, and of the next call, which continues all of it."""
    first, second = stage.recorder.calls[-2:]
    assert [call["function"]["arguments"] for call in first.reply["tool_calls"]] == [arguments]
    assert (first.reply["content"], first.reply.get("malformed_tool_call", 0)) == ("let me see", int(arguments != ARGUMENTS))
    # The same answer was recorded whole before it was streamed.
    assert (second.parent, second.kept) == (0, len(stream_ids(stage.recorder.calls, first.index)))


@pytest.mark.asyncio
@every_answer
async def test_chat_completions(serving: Any, said: str, arguments: str) -> None:
    ask = {"model": "any", "messages": USER, "tools": [LOOK]}
    async with serving(said) as stage:
        whole = (await post(stage, "/v1/chat/completions", ask))["choices"][0]["message"]
        chunks = [chunk["choices"][0] for chunk in await post(stage, "/v1/chat/completions", {**ask, "stream": True})]
        parts = [call for chunk in chunks for call in chunk["delta"].get("tool_calls", ())]
        joined = {**parts[0], "function": {"name": "look", "arguments": "".join(part["function"]["arguments"] for part in parts)}}
        answer = {"role": "assistant", "content": "let me see", "tool_calls": [joined]}
        result = {"role": "tool", "tool_call_id": joined["id"], "content": "x"}
        await post(stage, "/v1/chat/completions", {**ask, "messages": [*USER, answer, result]})
        check_recorded(stage, arguments)
    assert whole["tool_calls"][0]["function"] == joined["function"] == {"name": "look", "arguments": arguments}
    assert len(parts) >= 3
    assert [part["index"] for part in parts] == [0] * len(parts)
    assert [part.get("id") for part in parts[1:]] == [None] * len(parts[1:])
    assert chunks[-1]["finish_reason"] == "tool_calls"


@pytest.mark.asyncio
async def test_an_answer_whose_call_reaches_the_limit_ends_for_its_length(serving: Any) -> None:
    async with serving(CALL) as stage:
        whole = await post(stage, "/v1/chat/completions", {"messages": USER, "tools": [LOOK], "max_tokens": 60})
    assert whole["choices"][0]["message"]["tool_calls"]
    assert whole["choices"][0]["finish_reason"] == "length"


@pytest.mark.asyncio
@every_answer
async def test_responses(serving: Any, said: str, arguments: str) -> None:
    ask = {"input": USER, "tools": [{"type": "function", "name": "look", "parameters": SCHEMA}]}
    async with serving(said) as stage:
        whole = (await post(stage, "/v1/responses", ask))["output"]
        events = await post(stage, "/v1/responses", {**ask, "stream": True})
        output = events[-1]["response"]["output"]
        result = {"type": "function_call_output", "call_id": output[-1]["call_id"], "output": "x"}
        await post(stage, "/v1/responses", {**ask, "input": [*USER, *output, result]})
        check_recorded(stage, arguments)
    deltas = [event["delta"] for event in events if event["type"] == "response.function_call_arguments.delta"]
    done = [event["arguments"] for event in events if event["type"] == "response.function_call_arguments.done"]
    items = [
        event["item"] for event in events if event["type"] == "response.output_item.done" and event["item"]["type"] != "message"
    ]
    assert len(deltas) >= 3
    assert ["".join(deltas), *done, items[0]["arguments"], output[-1]["arguments"], whole[-1]["arguments"]] == [arguments] * 5
    assert [event["sequence_number"] for event in events] == list(range(len(events)))


@pytest.mark.asyncio
@every_answer
async def test_anthropic_messages(serving: Any, said: str, arguments: str) -> None:
    ask = {"model": "any", "max_tokens": 200, "messages": USER, "tools": [{"name": "look", "input_schema": SCHEMA}]}
    async with serving(said) as stage:
        whole = (await post(stage, "/v1/messages", ask))["content"][-1]
        events = await post(stage, "/v1/messages", {**ask, "stream": True})
        begun = next(event["content_block"] for event in events if event.get("content_block", {}).get("type") == "tool_use")
        # As Anthropic's documents say of arguments that are not valid JSON.
        joined = {**begun, "input": whole["input"]}
        answer = {"role": "assistant", "content": [{"type": "text", "text": "let me see"}, joined]}
        result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": begun["id"], "content": "x"}]}
        await post(stage, "/v1/messages", {**ask, "messages": [*USER, answer, result]})
        check_recorded(stage, arguments)
    parts = [event["delta"]["partial_json"] for event in events if event.get("delta", {}).get("type") == "input_json_delta"]
    assert len(parts) >= 3
    assert "".join(parts) == arguments
    assert whole["input"] == (json.loads(arguments) if arguments == ARGUMENTS else {"INVALID_JSON": arguments})
    assert [event["index"] for event in events if event["type"] == "content_block_stop"] == [0, 1]


@pytest.mark.asyncio
@every_answer
async def test_gemini_sends_a_call_in_one_piece(serving: Any, said: str, arguments: str) -> None:
    tools = [{"functionDeclarations": [{"name": "look", "parameters": SCHEMA}]}]
    asked = {"role": "user", "parts": [{"text": "hello"}]}
    ask = {"contents": [asked], "tools": tools}
    async with serving(said) as stage:
        whole = (await post(stage, "/v1beta/models/astuner:generateContent", ask))["candidates"][0]["content"]
        events = await post(stage, "/v1beta/models/astuner:streamGenerateContent?alt=sse", ask)
        result = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "x"}}}]}
        await post(stage, "/v1beta/models/astuner:generateContent", {**ask, "contents": [asked, whole, result]})
        check_recorded(stage, arguments)
    calls = [
        part["functionCall"] for event in events for part in event["candidates"][0]["content"]["parts"] if "functionCall" in part
    ]
    assert [call["args"] for call in calls] == [part["functionCall"]["args"] for part in whole["parts"] if "functionCall" in part]
    assert len(calls) == 1


@pytest.mark.asyncio
async def test_a_custom_tool_is_called_in_one_piece(serving: Any) -> None:
    said = '<tool_call>{"name": "run", "arguments": {"input": "one two three"}}</tool_call>'
    async with serving(said) as stage:
        ask = {"input": USER, "tools": [{"type": "custom", "name": "run"}], "stream": True}
        events = await post(stage, "/v1/responses", ask)
        tools = [{"type": "custom", "custom": {"name": "run"}}]
        chunks = await post(stage, "/v1/chat/completions", {"messages": USER, "tools": tools, "stream": True})
    assert [event["delta"] for event in events if event["type"] == "response.custom_tool_call_input.delta"] == ["one two three"]
    parts = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [part["custom"]["input"] for part in parts] == ["one two three"]
