"""What the in-process client sends is what the OpenAI SDK would send."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from openai.types.chat import ChatCompletionMessage  # noqa: E402 - there may be no SDK

from astuner.gateway.plain_openai import is_plain, plain_client_class  # noqa: E402
from astuner.gateway.transport import client_library  # noqa: E402

CALL = {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
ANSWER = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ANSWERED = {
    "id": "x",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi", "custom": 3}}],
}
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
ASK = [{"role": "user", "content": "q"}]
SENT = {
    "plain": {"messages": [*ASK, ANSWER, {"role": "tool", "tool_call_id": "c1", "content": "3"}], "tools": TOOLS},
    "unknown fields": {"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}], "extra": {"a": [1, None]}}]},
    "an answer of the SDK": {"messages": [*ASK, ChatCompletionMessage.model_validate({**ANSWER, "reasoning_content": "r"})]},
    "a call of the SDK": {
        "messages": [*ASK, {**ANSWER, "tool_calls": ChatCompletionMessage.model_validate(ANSWER).tool_calls}],
    },
    "a tuple": {"messages": tuple(ASK)},
    "not given": {"messages": ASK, "tools": openai.NOT_GIVEN, "temperature": openai.NOT_GIVEN},
    "more of a body": {"messages": ASK, "extra_body": {"top_k": 3}, "temperature": 0.5, "stop": ["x"]},
    "messages of a body": {"messages": ASK, "extra_body": {"messages": [{"role": "user", "content": "other"}]}},
    "a stream": {"messages": ASK, "stream": True},
}


async def send(client_class: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Return the body that a client sends."""
    http = client_library("openai")
    bodies: list[bytes] = []

    def answer(request: Any) -> Any:
        bodies.append(request.content)
        return http.Response(200, json=ANSWERED)

    async with http.AsyncClient(transport=http.MockTransport(answer)) as library:
        client = client_class(base_url="http://model/v1", api_key="k", max_retries=0, http_client=library)
        await client.chat.completions.create(model="m", **given)
    found: dict[str, Any] = json.loads(bodies[0])
    return found


@pytest.mark.parametrize("kind", SENT)
def test_the_body_is_the_one_of_the_sdk(kind: str) -> None:
    sent = asyncio.run(send(plain_client_class(), dict(SENT[kind])))
    assert sent == asyncio.run(send(openai.AsyncOpenAI, dict(SENT[kind])))


@pytest.mark.parametrize(("kind", "skips"), [("plain", True), ("an answer of the SDK", True), ("a call of the SDK", False)])
def test_only_plain_messages_skip_the_walk_through_type_hints(kind: str, skips: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from openai.resources.chat.completions import completions

    walked: list[Any] = []
    walk = completions.async_maybe_transform

    async def note(data: Any, expected: Any) -> Any:
        walked.append(data["messages"])
        return await walk(data, expected)

    monkeypatch.setattr(completions, "async_maybe_transform", note)
    asyncio.run(send(plain_client_class(), dict(SENT[kind])))
    assert [len(messages) == 0 for messages in walked] == [skips]


def test_a_raw_response_and_a_client_with_options_are_those_of_the_sdk() -> None:
    async def ask() -> Any:
        http = client_library("openai")
        async with http.AsyncClient(transport=http.MockTransport(lambda _: http.Response(200, json=ANSWERED))) as library:
            client = plain_client_class()(base_url="http://model/v1", api_key="k", http_client=library)
            raw = await client.with_options(timeout=3).chat.completions.with_raw_response.create(model="m", messages=ASK)
            return raw.status_code, raw.parse().choices[0].message.content

    assert asyncio.run(ask()) == (200, "hi")


@pytest.mark.parametrize(("value", "plain"), [({"a": [1, None, True, 0.5]}, True), ({1: 2}, False), ([object()], False)])
def test_what_is_plain(value: Any, plain: bool) -> None:
    assert is_plain(value) is plain
