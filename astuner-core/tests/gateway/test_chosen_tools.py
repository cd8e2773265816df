"""Choices of tools and custom tools over chat completions, as the official SDK sends them."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionMessageCustomToolCall

from astuner.contract.token_streams import stream_ids

USER = [{"role": "user", "content": "what is 1 and 2?"}]
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
NOTE = {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {}}}}
RULES = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: WORD"}}
RUN = {"type": "custom", "custom": {"name": "run_code", "description": "Runs Python.", "format": RULES}}


def allow(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def call(name: str, arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_only_allowed_tools_are_offered(serving: Any, renderer: Any, mode: str) -> None:
    async with serving(call("add", {"a": 1})) as stage:
        answer = await stage.client().chat.completions.create(
            model="any", messages=USER, tools=[ADD, NOTE], tool_choice=allow(mode, "add")
        )
    prompt = renderer.decode(stage.recorder.calls[0].prompt_ids.tolist())
    assert ('"add"' in prompt, '"note"' in prompt) == (True, False)
    assert answer.choices[0].message.tool_calls[0].function.name == "add"
    assert any("required tool call" in text for text in stage.recorder.notices) is (mode == "required")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "choice", [allow("auto", "other"), allow("auto"), allow("sometimes", "add"), {"type": "allowed_tools", "allowed_tools": {}}]
)
async def test_what_cannot_be_allowed_is_refused_with_the_tools_that_there_are(serving: Any, choice: Any) -> None:
    async with serving() as stage:
        with pytest.raises(openai.BadRequestError, match=r"among: add, note\."):
            await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD, NOTE], tool_choice=choice)


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("choice", ["auto", {"type": "custom", "custom": {"name": "run_code"}}, allow("auto", "run_code")])
async def test_a_custom_tool_gets_its_text_and_the_conversation_stays_one_stream(
    serving: Any, renderer: Any, stream: bool, choice: Any
) -> None:
    async with serving([call("run_code", {"input": "print('é')"}), "3"]) as stage:
        ask = {"model": "any", "tools": [RUN, ADD], "tool_choice": choice}
        if stream:
            chunks = [c async for c in await stage.client().chat.completions.create(messages=USER, stream=True, **ask)]
            made = [one for chunk in chunks for choice in chunk.choices for one in choice.delta.model_dump()["tool_calls"] or ()]
            [reply] = [
                {"role": "assistant", "content": None, "tool_calls": [{k: one[k] for k in ("id", "type", "custom")}]}
                for one in made
            ]
        else:
            answer = await stage.client().chat.completions.create(messages=USER, **ask)
            assert isinstance(answer.choices[0].message.tool_calls[0], ChatCompletionMessageCustomToolCall)
            reply = answer.choices[0].message.model_dump(exclude_none=True)
        custom = reply["tool_calls"][0]
        result = {"role": "tool", "tool_call_id": custom["id"], "content": "é"}
        await stage.client().chat.completions.create(messages=[*USER, reply, result], **ask)
    assert (custom["type"], custom["custom"]) == ("custom", {"name": "run_code", "input": "print('é')"})
    prompt = renderer.decode(stage.recorder.calls[0].prompt_ids.tolist())
    assert "Runs Python." in prompt
    assert "start: WORD" in prompt
    assert stage.recorder.calls[1].kept == len(stream_ids(stage.recorder.calls, 0))


@pytest.mark.asyncio
@pytest.mark.parametrize("arguments", [{"code": "1"}, {"input": 1}, {"input": "1", "more": "2"}, []])
async def test_arguments_that_are_no_text_come_back_as_they_were_sampled(serving: Any, arguments: Any) -> None:
    async with serving([call("run_code", arguments), "3"]) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[RUN])
        if not answer.choices[0].message.tool_calls:
            return
        reply = answer.choices[0].message.model_dump(exclude_none=True)
        result = {"role": "tool", "tool_call_id": reply["tool_calls"][0]["id"], "content": "no"}
        await stage.client().chat.completions.create(model="any", messages=[*USER, reply, result], tools=[RUN])
    assert json.loads(reply["tool_calls"][0]["custom"]["input"]) == arguments
    assert stage.recorder.calls[1].kept == len(stream_ids(stage.recorder.calls, 0))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "tool", [{"type": "custom"}, {"type": "custom", "custom": {"name": "x", "format": {"type": "regex"}}}, {"type": "odd"}]
)
async def test_a_tool_that_is_not_valid_is_refused_by_its_place(serving: Any, tool: Any) -> None:
    async with serving() as stage:
        with pytest.raises(openai.BadRequestError, match=r"tools\[1\]"):
            await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD, tool])
