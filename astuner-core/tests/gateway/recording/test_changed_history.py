"""A framework that changes what was said is named once, by what it does."""

from __future__ import annotations

import json
from typing import Any

import pytest

SYSTEM = {"role": "system", "content": "It is 10:00:01."}
USER = {"role": "user", "content": "what is 1 and 2?"}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "add", "arguments": {"a": 1\n</tool_call>'


def call(arguments: str = '{"a": 1}', number: int = 1) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": "add", "arguments": arguments}}


def result(number: int = 1) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": f"c{number}", "content": "3"}


def answer(content: str | None = None, *calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {})}


CHANGES: dict[str, tuple[str, list[Any], str]] = {
    "a clock in the first message": (
        "three",
        [{**SYSTEM, "content": "It is 10:00:02."}, USER, answer("three"), USER],
        "rewrites the first message",
    ),
    "failures in the question": (
        "three",
        [SYSTEM, {**USER, "content": "what is 1 and 2? Last time you failed."}, answer("three"), USER],
        "rewrites an earlier message of the role user",
    ),
    "defaults in arguments": (CALL, [SYSTEM, USER, answer(None, call('{"a": 1, "b": 0}')), result()], "changes the arguments"),
    "arguments as an object of one key": (
        CALL,
        [SYSTEM, USER, answer(None, call('{"INVALID": "x"}')), result()],
        "changes the arguments",
    ),
    "a call that was repaired": (BROKEN, [SYSTEM, USER, answer(None, call()), result()], "repairs tool calls"),
    "a call that was dropped": (f"{CALL}\n{CALL}", [SYSTEM, USER, answer(None, call()), result()], "drops tool calls"),
    "text next to a call": (
        f"let me see\n{CALL}",
        [SYSTEM, USER, answer(None, call()), result()],
        "drops the text next to tool calls",
    ),
    "another text": ("three", [SYSTEM, USER, answer("Three!"), USER], "changes the text of answers"),
}

KEPT: dict[str, tuple[str, list[Any]]] = {
    "all as it was": (f"let me see\n{CALL}", [SYSTEM, USER, answer("let me see", call('{"a":1}', 7)), result(7)]),
    "blanks at the ends": (" three ", [SYSTEM, USER, answer("three"), USER]),
    "asked again": ("three", [SYSTEM, USER]),
    "another conversation": ("three", [{**SYSTEM, "content": "Sum up."}, {**USER, "content": "all of it"}, answer("x"), USER]),
    "the answer left out": ("three", [SYSTEM, USER, USER]),
}


async def play(serving: Any, said: str, messages: list[Any]) -> list[str]:
    async with serving([said, "ok", "ok"]) as stage:
        client = stage.client()
        await client.chat.completions.create(model="any", messages=[SYSTEM, USER], tools=[ADD])
        await client.chat.completions.create(model="any", messages=json.loads(json.dumps(messages)), tools=[ADD])
    return [text for text in stage.recorder.notices if "its framework" in text]


@pytest.mark.asyncio
@pytest.mark.parametrize(("said", "messages", "notice"), CHANGES.values(), ids=CHANGES)
async def test_a_change_is_named_with_the_agent(serving: Any, said: str, messages: list[Any], notice: str) -> None:
    found = await play(serving, said, messages)
    assert any(text.startswith("agent: its framework") and notice in text for text in found), found


@pytest.mark.asyncio
@pytest.mark.parametrize(("said", "messages"), KEPT.values(), ids=KEPT)
async def test_what_is_sent_back_as_it_was_is_not(serving: Any, said: str, messages: list[Any]) -> None:
    assert await play(serving, said, messages) == []


@pytest.mark.asyncio
async def test_an_answer_that_the_agent_began_is_no_change(serving: Any) -> None:
    begun = [SYSTEM, USER, answer("The sum is")]
    async with serving([" three", "ok"]) as stage:
        client = stage.client()
        await client.chat.completions.create(model="any", messages=begun)
        await client.chat.completions.create(model="any", messages=[SYSTEM, USER, answer("The sum is three"), USER])
    assert stage.recorder.notices == []
