"""Anthropic's Messages API: bodies as its SDK sends them, and the answers and events that it reads.

One file, long as it is: a small test for each thing that the API promises.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.contract.token_streams import stream_ids
from astuner.model.rendering.errors import ApiError
from astuner_wire_apis.anthropic_request import messages_request

USER = [{"role": "user", "content": "what is 1 and 2?"}]
ADD = {"name": "add", "description": "Add.", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a":1,  "b": 2}}\n</tool_call>'
ASK = {"model": "any", "max_tokens": 100, "messages": USER}


@asynccontextmanager
async def http(stage: Any, key: str = "x-api-key") -> AsyncIterator[httpx.AsyncClient]:
    api = stage.recorder.tuner.as_oai_baseurl_apikey("scout")
    headers = {key: f"Bearer {api.api_key}" if key == "authorization" else api.api_key}
    async with httpx.AsyncClient(base_url=api.base_url, headers=headers) as client:
        yield client


def events(response: httpx.Response) -> list[tuple[str, Any]]:
    parts = [part.split("\n") for part in response.text.split("\n\n") if part]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


def results(content: list[Any], text: str = "3") -> dict[str, Any]:
    calls = [block for block in content if block["type"] == "tool_use"]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call["id"], "content": text} for call in calls]}


@pytest.mark.asyncio
async def test_an_answer_is_a_message_of_blocks(serving: Any) -> None:
    async with serving(f"<think>\nhm\n</think>\n\nlet me see\n{CALL}") as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "tools": [ADD]})
    found, call = response.json(), stage.recorder.calls[0]
    assert found["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "unsigned"},
        {"type": "text", "text": "let me see"},
        {"type": "tool_use", "id": call.reply["tool_calls"][0]["id"], "name": "add", "input": {"a": 1, "b": 2}},
    ]
    assert (found["type"], found["role"], found["model"]) == ("message", "assistant", "astuner")
    assert (found["stop_reason"], found["stop_sequence"]) == ("tool_use", None)
    assert found["usage"]["input_tokens"] == len(call.prompt_ids)
    assert found["usage"]["output_tokens"] == len(call.output_ids)


@pytest.mark.asyncio
async def test_a_stream_is_a_row_of_blocks(serving: Any) -> None:
    async with serving(f"<think>\nhm\n</think>\n\nlet me see\n{CALL}") as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "tools": [ADD], "stream": True})
    found = events(response)
    assert [name for name, _ in found] == [body["type"] for _, body in found]
    joined: dict[tuple[int, str], str] = {}
    for _, body in found:
        if body["type"] == "content_block_delta":
            kind = body["delta"]["type"]
            said = body["delta"][{"input_json_delta": "partial_json"}.get(kind, kind.removesuffix("_delta"))]
            joined[body["index"], kind] = joined.get((body["index"], kind), "") + said
    assert joined == {
        (0, "thinking_delta"): "hm",
        (0, "signature_delta"): "unsigned",
        (1, "text_delta"): "let me see",
        (2, "input_json_delta"): '{"a":1,  "b": 2}',
    }
    edges = [(body["type"], body["index"]) for _, body in found if body["type"] in ("content_block_start", "content_block_stop")]
    assert edges == [(f"content_block_{edge}", index) for index in range(3) for edge in ("start", "stop")]
    assert [name for name, _ in found[:2]] == ["message_start", "ping"]
    assert [name for name, _ in found[-2:]] == ["message_delta", "message_stop"]
    assert found[-2][1]["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert found[-2][1]["usage"]["output_tokens"] == len(stage.recorder.calls[0].output_ids)
    assert found[0][1]["message"]["usage"]["input_tokens"] == len(stage.recorder.calls[0].prompt_ids)


@pytest.mark.asyncio
async def test_what_the_sdk_sends_is_taken(serving: Any) -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    body = {
        **ASK,
        "system": [{"type": "text", "text": "be", **cached}, {"type": "text", "text": "brief"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", **cached}]}],
        "metadata": {"user_id": "me"},
        "service_tier": "auto",
        "stop_sequences": [],
        "temperature": 1.0,
        "thinking": {"type": "disabled"},
        "tool_choice": {"type": "auto"},
        "tools": [{**ADD, "type": "custom", **cached}],
        "unheard_of": 1,
        **cached,
    }
    async with serving("yes") as stage, http(stage) as client:
        response = await client.post("/messages?beta=true", json=body, headers={"anthropic-version": "2023-06-01"})
    assert response.status_code == 200
    assert [message["content"] for message in stage.recorder.calls[0].messages] == ["be\nbrief", "hello"]


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"max_tokens": None}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": ["hello"]}, "messages[0]"),
        ({"messages": [{"role": ["user"], "content": "x"}]}, "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": []}]}, "messages[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "document"}]}]}, "messages[0].content[0].source"),
        (
            {"messages": [{"role": "user", "content": [{"type": "document", "source": {"type": "base64"}}]}]},
            "messages[0].content[0].source.type",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "tool_reference"}]}]}, "messages[0].content[0].tool_name"),
        ({"messages": [{"role": "user", "content": [{"type": "search_result"}]}]}, "messages[0].content[0].content"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_use"}]}]}, "messages[0].content[0]"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]}, "messages[0].content[0].text"),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}]}, "messages[0].content[0].tool_use_id"),
        (
            {
                "messages": [
                    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [{"type": "image"}]}]}
                ]
            },
            "messages[0].content[0].content[0]",
        ),
        (
            {
                "messages": [
                    {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "add", "input": "{}"}]},
                    *USER,
                ]
            },
            "messages[0].content[0].input",
        ),
        ({"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}, *USER]}, "messages[0].content[0]"),
        ({"system": [{"type": "image"}]}, "system[0]"),
        ({"system": 5}, "system"),
        ({"tools": [{"type": "computer_20250124", "name": "computer"}]}, "tools[0].type"),
        ({"tools": [{"type": "bash_20990101", "name": "bash"}]}, "tools[0].type"),
        ({"tools": [{"type": ["custom"], "name": "add"}]}, "tools[0].type"),
        ({"tools": [{"type": "bash_20250124", "name": 5}]}, "tools[0].name"),
        ({"tools": [{"name": "add"}]}, "tools[0]"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "must"}}, "tool_choice.type"),
        ({"tool_choice": {"type": "tool", "name": "sub"}, "tools": [ADD]}, "tool_choice.name"),
        ({"thinking": {"type": "deep"}}, "thinking.type"),
        ({"stop_sequences": [""]}, "stop_sequences"),
        ({"top_p": 2}, "top_p"),
        ({"output_config": {"format": {"type": "yaml"}}}, "output_config.format"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_place(change: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        messages_request({**ASK, **change})
    assert (caught.value.status, caught.value.param) == (400, param)
    assert param in caught.value.message or param == "messages"


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_a_turn_that_comes_back_in_blocks_continues_the_recorded_stream(serving: Any, stream: bool) -> None:
    script = [f"<think>\nhm\n</think>\n\nlet me see\n{CALL}\n{CALL}", "3"]
    asked = {**ASK, "tools": [ADD]}
    async with serving(script) as stage, http(stage) as client:
        response = await client.post("/messages", json={**asked, "stream": stream})
        content = blocks(response) if stream else response.json()["content"]
        back = [*USER, {"role": "assistant", "content": content}, results(content)]
        answer = await client.post("/messages", json={**asked, "messages": back})
    call = stage.recorder.calls[1]
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]
    assert call.parent == 0
    assert call.kept == len(stream_ids(stage.recorder.calls, 0))
    assert answer.json()["usage"]["cache_read_input_tokens"] == call.kept
    assert answer.json()["usage"]["input_tokens"] == len(call.prompt_ids)


def blocks(response: httpx.Response) -> list[Any]:
    """Put the blocks of a stream together, as the SDK does."""
    found: list[Any] = []
    for _, body in events(response):
        if body["type"] == "content_block_start":
            found.append({**body["content_block"], "input": ""})
        elif body["type"] == "content_block_delta":
            part = body["delta"]
            key = {"input_json_delta": "input"}.get(part["type"], part["type"].removesuffix("_delta"))
            found[-1][key] += part.get("partial_json", part.get(key))
    # Sorted keys: the arguments are not as the model wrote them.
    return [{**block, "input": dict(sorted(json.loads(block["input"] or "{}").items()))} for block in found]


@pytest.mark.asyncio
async def test_one_conversation_through_two_apis_is_one_stream(serving: Any) -> None:
    tool = {"type": "function", "function": {"name": "add", "parameters": ADD["input_schema"], "description": "Add."}}
    async with serving([CALL, "3"]) as stage, http(stage) as client:
        key = stage.recorder.tuner.as_oai_baseurl_apikey("scout").api_key
        bearer = {"Authorization": f"Bearer {key}"}
        first = await client.post("/chat/completions", json={"messages": USER, "tools": [tool]}, headers=bearer)
        said = first.json()["choices"][0]["message"]["tool_calls"][0]
        content = [{"type": "tool_use", "id": said["id"], "name": "add", "input": {"b": 2, "a": 1}}]
        back = [*USER, {"role": "assistant", "content": content}, results(content)]
        await client.post("/messages", json={**ASK, "messages": back, "tools": [ADD]})
    assert stage.recorder.calls[1].kept == len(stream_ids(stage.recorder.calls, 0))


@pytest.mark.asyncio
async def test_arguments_that_are_no_object_come_back_as_they_were(serving: Any) -> None:
    call = '<tool_call>{"name": "add", "arguments": {"a": 1e999}}</tool_call>'
    async with serving([call, "3"]) as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "tools": [ADD]})
        content = response.json()["content"]
        back = [*USER, {"role": "assistant", "content": content}, results(content)]
        await client.post("/messages", json={**ASK, "tools": [ADD], "messages": back})
    assert content[0]["input"] == {"INVALID_JSON": '{"a": 1e999}'}
    assert stage.recorder.calls[1].kept == len(stream_ids(stage.recorder.calls, 0))


def read_messages(*messages: Any) -> Any:
    return messages_request({**ASK, "messages": list(messages)}).messages


def test_neighbours_of_one_role_are_one_turn() -> None:
    both = [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}]}]
    split = [{"role": "assistant", "content": "c"}, {"role": "assistant", "content": [{"type": "text", "text": "d"}]}]
    assert [message["content"] for message in read_messages(*both, *split, *USER)] == ["a\nb", "cd", "what is 1 and 2?"]


def test_tool_results_stand_before_the_text_that_follows_them() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": [{"type": "text", "text": "3"}]}
    asked = {"role": "user", "content": [result, {**result, "tool_use_id": "2"}, {"type": "text", "text": "and now?"}]}
    assert [(message["role"], message["content"]) for message in read_messages(asked)] == [
        ("tool", "3"),
        ("tool", "3"),
        ("user", "and now?"),
    ]


def test_a_model_sees_that_its_call_failed() -> None:
    result = {"type": "tool_result", "tool_use_id": "1", "content": "no such file", "is_error": True}
    assert read_messages({"role": "user", "content": [result]})[0]["content"] == "Error:\nno such file"


def test_redacted_thoughts_hold_nothing_to_read() -> None:
    content = [{"type": "redacted_thinking", "data": "xx"}, {"type": "text", "text": "yes"}]
    assert read_messages({"role": "assistant", "content": content}, *USER)[0] == {"role": "assistant", "content": "yes"}


@pytest.mark.parametrize(
    ("choice", "reads", "constraint"),
    [
        ({"type": "auto"}, True, None),
        ({"type": "none"}, False, None),
        ({"type": "any"}, True, ["add", "sub"]),
        ({"type": "tool", "name": "sub"}, True, ["sub"]),
    ],
)
def test_tool_choice_is_told_in_the_words_of_chat(choice: Any, reads: bool, constraint: list[str] | None) -> None:
    request = messages_request({**ASK, "tools": [ADD, {**ADD, "name": "sub"}], "tool_choice": choice})
    wanted = None if request.constraint is None else [tool["function"]["name"] for tool in request.constraint["tools"]]
    assert (request.calls_tools, wanted) == (reads, constraint)


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [ADD], "tool_choice": {"type": "any"}},
        {"tools": [ADD], "tool_choice": {"type": "tool", "name": "add"}},
        {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
    ],
)
async def test_what_the_engine_cannot_enforce_is_trained(serving: Any, asked: Any) -> None:
    async with serving(CALL) as stage, http(stage) as client:
        await client.post("/messages", json={**ASK, **asked})
    assert [call.untrained for call in stage.recorder.calls] == [None]


@pytest.mark.asyncio
async def test_only_one_tool_call_where_parallel_ones_are_disabled(serving: Any) -> None:
    choice = {"type": "auto", "disable_parallel_tool_use": True}
    async with serving(CALL + CALL) as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "tools": [ADD], "tool_choice": choice})
    assert [block["type"] for block in response.json()["content"]] == ["tool_use"]


@pytest.mark.parametrize(("kind", "wanted"), [("enabled", True), ("adaptive", True), ("disabled", False)])
def test_thinking_is_a_variable_of_the_template(kind: str, wanted: bool) -> None:
    assert messages_request({**ASK, "thinking": {"type": kind}}).template_kwargs == {"enable_thinking": wanted}


def test_a_thinking_budget_has_no_effect_and_says_so() -> None:
    request = messages_request({**ASK, "thinking": {"type": "enabled", "budget_tokens": 1024}})
    assert request.ignored == ("thinking.budget_tokens",)


def test_an_output_format_is_a_constraint() -> None:
    schema = {"type": "object"}
    request = messages_request({**ASK, "output_config": {"format": {"type": "json_schema", "schema": schema}}})
    assert request.constraint == {"type": "json_schema", "schema": schema}


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_a_stop_sequence_is_named(serving: Any, stream: bool) -> None:
    async with serving("one END two") as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "stop_sequences": ["two", "END"], "stream": stream})
    found = events(response)[-2][1]["delta"] if stream else response.json()
    assert (found["stop_reason"], found["stop_sequence"]) == ("stop_sequence", "END")


@pytest.mark.asyncio
async def test_a_cut_answer_says_so(serving: Any) -> None:
    async with serving("one two three") as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "max_tokens": 2})
    assert response.json()["stop_reason"] == "max_tokens"


@pytest.mark.asyncio
@pytest.mark.parametrize("key", ["x-api-key", "authorization"])
async def test_the_key_comes_in_either_header(serving: Any, key: str) -> None:
    async with serving("yes") as stage, http(stage, key) as client:
        response = await client.post("/messages", json=ASK)
        models = await client.get("/models")
        model = (await client.get("/models/astuner")).json()
    assert (response.status_code, models.status_code) == (200, 200)
    assert (model["type"], model["id"], model["created_at"]) == ("model", "astuner", "1970-01-01T00:00:00Z")
    assert stage.recorder.calls[0].agent == "scout"


@pytest.mark.asyncio
@pytest.mark.parametrize("path", ["/messages", "/messages/count_tokens"])
async def test_tokens_and_answers_are_refused_in_the_apis_own_shape(serving: Any, path: str) -> None:
    async with serving("yes", gateway={"max_body_bytes": 1000}) as stage, http(stage) as client:
        found = [
            await client.post(path, json=ASK, headers={"x-api-key": "nonsense"}),
            await client.post(path, json={**ASK, "x": "y" * 2000}),
            await client.post(path, json={**ASK, "messages": []}),
        ]
    assert [(one.status_code, one.json()["type"], one.json()["error"]["type"]) for one in found] == [
        (401, "error", "authentication_error"),
        (413, "error", "request_too_large"),
        (400, "error", "invalid_request_error"),
    ]
    assert stage.recorder.calls == ()


@pytest.mark.asyncio
async def test_too_many_calls_are_a_rate_limit_and_a_full_context_a_prompt_that_is_too_long(serving: Any) -> None:
    async with serving("yes", max_steps=0) as stage, http(stage) as client:
        limited = await client.post("/messages", json=ASK)
    async with serving("yes", max_model_len=10) as stage, http(stage) as client:
        full = await client.post("/messages", json=ASK)
    assert (limited.status_code, limited.json()["error"]["type"]) == (403, "permission_error")
    assert (full.status_code, full.json()["error"]["message"][:20]) == (400, "prompt is too long: ")


class Failing:
    """Says a word, unless it is down, and fails."""

    capabilities = Capabilities()

    def __init__(self, words: int) -> None:
        self.words = words

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        for _ in range(self.words):
            yield Chunk(ids=[70, 71], logprobs=[-1.0, -2.0])
            await asyncio.sleep(0)
        raise RuntimeError("out of memory")


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_that_is_down_is_overloaded_for_now(serving: Any, stream: bool) -> None:
    async with serving(engine=Failing(0)) as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "stream": stream})
    assert (response.status_code, response.json()["error"]["type"]) == (503, "overloaded_error")
    assert response.headers["retry-after"] == "1"
    assert stage.recorder.calls[0].untrained == "engine_error"


@pytest.mark.asyncio
async def test_a_failure_in_the_middle_of_a_stream_is_an_event(serving: Any) -> None:
    async with serving(engine=Failing(1)) as stage, http(stage) as client:
        response = await client.post("/messages", json={**ASK, "stream": True})
    name, body = events(response)[-1]
    assert (name, body["type"], body["error"]["type"]) == ("error", "error", "overloaded_error")


@pytest.mark.asyncio
async def test_tokens_are_counted_as_they_would_be_sent_and_not_recorded(serving: Any) -> None:
    asked = {key: value for key, value in ASK.items() if key != "max_tokens"}
    async with serving("yes") as stage, http(stage) as client:
        counted = await client.post("/messages/count_tokens", json=asked)
        assert stage.recorder.calls == ()
        await client.post("/messages", json=ASK)
    assert counted.json() == {"input_tokens": len(stage.recorder.calls[0].prompt_ids)}


class Remote:
    """Speaks chat and knows no token ids."""

    capabilities = Capabilities(token_ids=False)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def chat(self, body: Any) -> Any:
        self.asked = body
        return {"choices": [{"message": {"content": "three"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9}}


@pytest.mark.asyncio
async def test_an_engine_without_token_ids_is_asked_in_chat(serving: Any) -> None:
    engine = Remote()
    async with serving(engine=engine) as stage, http(stage) as client:
        answer = await client.post("/messages", json={**ASK, "system": "be brief", "tools": [ADD], "stop_sequences": ["END"]})
        counted = await client.post("/messages/count_tokens", json=ASK)
    assert answer.json()["content"] == [{"type": "text", "text": "three"}]
    assert [message["role"] for message in engine.asked["messages"]] == ["system", "user"]
    assert (engine.asked["stop"], engine.asked["tools"][0]["function"]["name"]) == (["END"], "add")
    assert counted.status_code == 400
