"""What the in-process client sends is what the OpenAI SDK would send."""

from __future__ import annotations

import asyncio
import functools
import json
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from openai.types.chat import ChatCompletionMessage  # noqa: E402 - there may be no SDK

from astuner.model.gateway.plain_openai import (  # noqa: E402
    client_library,
    is_plain,
    plain_client_class,
)

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
        walked.append(data)
        return await walk(data, expected)

    monkeypatch.setattr(completions, "async_maybe_transform", note)
    asyncio.run(send(plain_client_class(), dict(SENT[kind])))
    assert (not walked) is skips


async def ask(client_class: Any, answered: Any, **given: Any) -> tuple[Any, Any]:
    """Return the answer that a client reads, and the request that it came to."""
    http = client_library("openai")
    requests: list[Any] = []

    def answer(request: Any) -> Any:
        requests.append(request)
        return http.Response(200, headers={"x-request-id": "r1", "content-type": "application/json"}, content=answered)

    async with http.AsyncClient(transport=http.MockTransport(answer)) as library:
        client = client_class(base_url="http://model/v1", api_key="k", max_retries=0, http_client=library)
        return await client.chat.completions.create(**{"model": "m", "messages": ASK, **given}), requests[0]


def write_answer(message: dict[str, Any], **choice: Any) -> bytes:
    """Return the body of an answer with one choice."""
    body = {**ANSWERED, "choices": [{"index": 0, "finish_reason": "stop", "message": message, **choice}]}
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "surrogatepass")


LOGPROB = {"token": "hi", "logprob": -0.5, "bytes": [104, 105], "top_logprobs": [{"token": "a", "logprob": -1.5, "bytes": None}]}
ANSWERS = {
    "text": write_answer({"role": "assistant", "content": "hi", "refusal": None}),
    "tool calls": write_answer({**ANSWER, "refusal": None}, finish_reason="tool_calls"),
    "reasoning, which the SDK does not know": write_answer({"role": "assistant", "content": "hi", "reasoning_content": "r"}),
    "log-probabilities": write_answer({"role": "assistant", "content": "hi"}, logprobs={"content": [LOGPROB], "refusal": None}),
    "half a surrogate pair": write_answer({"role": "assistant", "content": "a\ud800"}),
    "a reason that the SDK does not know": write_answer({"role": "assistant", "content": "hi"}, finish_reason="abort"),
}


@pytest.mark.parametrize("kind", ANSWERS)
def test_the_answer_is_the_one_of_the_sdk(kind: str) -> None:
    plain, _ = asyncio.run(ask(plain_client_class(), ANSWERS[kind]))
    theirs, _ = asyncio.run(ask(openai.AsyncOpenAI, ANSWERS[kind]))
    assert (type(plain), plain.to_dict(), plain._request_id) == (type(theirs), theirs.to_dict(), "r1")
    assert repr(plain) == repr(theirs)
    assert plain.model_dump(exclude_unset=True) == theirs.model_dump(exclude_unset=True)
    assert plain.choices[0].message.model_extra == theirs.choices[0].message.model_extra


def test_headers_query_and_time_limit_of_a_request_are_sent_as_by_the_sdk() -> None:
    given = {"extra_headers": {"x-own": "1"}, "extra_query": {"q": "2"}, "timeout": 3.0}
    plain, sent = asyncio.run(ask(plain_client_class(), ANSWERS["text"], **given))
    theirs, wanted = asyncio.run(ask(openai.AsyncOpenAI, ANSWERS["text"], **given))
    # The name of the client's class is in this one.
    del sent.headers["user-agent"], wanted.headers["user-agent"]
    assert (sent.url, dict(sent.headers), sent.extensions) == (wanted.url, dict(wanted.headers), wanted.extensions)
    assert plain == theirs


@pytest.mark.parametrize("given", [{"nonsense": 1}, {"model": openai.NOT_GIVEN, "response_format": openai.BaseModel}])
def test_arguments_that_the_sdk_refuses_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(TypeError) as ours:
        asyncio.run(ask(plain_client_class(), ANSWERS["text"], **given))
    with pytest.raises(TypeError) as theirs:
        asyncio.run(ask(openai.AsyncOpenAI, ANSWERS["text"], **given))
    assert str(ours.value).replace("PlainCompletions", "AsyncCompletions") == str(theirs.value)


def test_a_program_that_traces_the_sdk_gets_the_call_as_the_agent_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from openai.resources.chat.completions import AsyncCompletions

    traced: list[Any] = []
    create: Any = AsyncCompletions.create

    @functools.wraps(create)
    async def trace(self: Any, **given: Any) -> Any:
        traced.append(given["messages"])
        return await create(self, **given)

    monkeypatch.setattr(AsyncCompletions, "create", trace)
    answer, _ = asyncio.run(ask(plain_client_class(), ANSWERS["text"]))
    assert (traced, answer.choices[0].message.content) == ([ASK], "hi")


def test_a_raw_response_and_a_client_with_options_are_those_of_the_sdk() -> None:
    async def ask_raw() -> Any:
        http = client_library("openai")
        async with http.AsyncClient(transport=http.MockTransport(lambda _: http.Response(200, json=ANSWERED))) as library:
            client = plain_client_class()(base_url="http://model/v1", api_key="k", http_client=library)
            raw = await client.with_options(timeout=3).chat.completions.with_raw_response.create(model="m", messages=ASK)
            return raw.status_code, raw.parse().choices[0].message.content

    assert asyncio.run(ask_raw()) == (200, "hi")


@pytest.mark.parametrize(("value", "plain"), [({"a": [1, None, True, 0.5]}, True), ({1: 2}, False), ([object()], False)])
def test_what_is_plain(value: Any, plain: bool) -> None:
    assert is_plain(value) is plain
