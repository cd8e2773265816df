"""Gemini's API: bodies as Google's SDKs and Gemini CLI send them, and the answers and events that they read.

One file, long as it is: a small test for each thing that the API promises.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openapi_document import read_document

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.contract.token_streams import stream_ids
from astuner.model.rendering.errors import ApiError
from astuner_wire_apis.gemini_request import gemini_request
from astuner_wire_apis.gemini_tools import to_json_schema

USER: dict[str, Any] = {"role": "user", "parts": [{"text": "hello"}]}
ADD = {"name": "add", "description": "Add.", "parametersJsonSchema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
TOOLS = [{"functionDeclarations": [ADD]}]
ASK: dict[str, Any] = {"contents": [USER]}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a":1,  "b": 2}}\n</tool_call>'
PATH = "/v1beta/models/any:generateContent"
STREAM = "/v1beta/models/any:streamGenerateContent?alt=sse"


@asynccontextmanager
async def http(stage: Any, **headers: str) -> AsyncIterator[httpx.AsyncClient]:
    api = stage.recorder.tuner.as_oai_baseurl_apikey("scout")
    known = headers or {"x-goog-api-key": api.api_key}
    async with httpx.AsyncClient(base_url=api.base_url.removesuffix("/v1"), headers=known) as client:
        yield client


def events(response: httpx.Response) -> list[Any]:
    return [json.loads(part.removeprefix("data: ")) for part in response.text.split("\n\n") if part]


def parts_of(found: list[Any]) -> list[Any]:
    return [part for event in found for candidate in event.get("candidates", ()) for part in candidate["content"]["parts"]]


def read(*contents: Any, **more: Any) -> Any:
    return gemini_request({"contents": list(contents), **more})


def join(parts: list[Any]) -> tuple[str, str, list[Any]]:
    """Return thoughts, text and calls."""
    thoughts = "".join(part["text"] for part in parts if part.get("thought"))
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    return thoughts, text, [part["functionCall"] for part in parts if "functionCall" in part]


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_is_a_candidate_of_parts(serving: Any, stream: bool) -> None:
    async with serving(f"<think>\nhm\n</think>\n\nlet me see\n{CALL}") as stage, http(stage) as client:
        response = await client.post(STREAM if stream else PATH, json={**ASK, "tools": TOOLS})
    found, call = events(response) if stream else [response.json()], stage.recorder.calls[0]
    thoughts, text, calls = join(parts_of(found))
    assert (thoughts.strip(), text.strip()) == ("hm", "let me see")
    assert calls == [{"id": call.reply["tool_calls"][0]["id"], "name": "add", "args": {"a": 1, "b": 2}}]
    reasons = [candidate["finishReason"] for event in found for candidate in event["candidates"] if "finishReason" in candidate]
    assert reasons == ["STOP"]
    usage = found[-1]["usageMetadata"]
    assert usage["promptTokenCount"] == len(call.prompt_ids)
    assert usage["candidatesTokenCount"] + usage["thoughtsTokenCount"] == len(call.output_ids)
    assert usage["totalTokenCount"] == len(call.prompt_ids) + len(call.output_ids)
    assert {event["modelVersion"] for event in found} == {"astuner"}
    assert len({event["responseId"] for event in found}) == 1


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("ids", [True, False])
async def test_a_turn_that_comes_back_continues_the_recorded_stream(serving: Any, stream: bool, ids: bool) -> None:
    says = [f"<think>\nhm\n</think>\n\nlet me see\n{CALL}\n{CALL}", "three"]
    async with serving(says) as stage, http(stage) as client:
        response = await client.post(STREAM if stream else PATH, json={**ASK, "tools": TOOLS})
        parts = parts_of(events(response) if stream else [response.json()])
        calls = join(parts)[2]
        if not ids:
            parts = [{"functionCall": {**p["functionCall"], "id": None}} if "functionCall" in p else p for p in parts]
        results = [
            {"functionResponse": {**({"id": call["id"]} if ids else {}), "name": "add", "response": {"output": "3"}}}
            for call in calls
        ]
        again = [USER, {"role": "model", "parts": parts}, {"role": "user", "parts": results}]
        await client.post(PATH, json={"contents": again, "tools": TOOLS})
    second = stage.recorder.calls[1]
    assert (second.parent, second.kept) == (0, len(stream_ids(stage.recorder.calls, 0)))
    assert [message["role"] for message in second.messages] == ["tool", "tool"]


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_reasoning_comes_back_in_the_signature_of_a_call(serving: Any, stream: bool) -> None:
    async with serving([f"<think>\nhm é 中\n</think>\n\nlet me see\n{CALL}", "three"]) as stage, http(stage) as client:
        response = await client.post(STREAM if stream else PATH, json={**ASK, "tools": TOOLS})
        parts = [part for part in parts_of(events(response) if stream else [response.json()]) if not part.get("thought")]
        results = [{"functionResponse": {"name": "add", "response": {"output": "3"}}}]
        again = [USER, {"role": "model", "parts": parts}, {"role": "user", "parts": results}]
        await client.post(PATH, json={"contents": again, "tools": TOOLS})
    second = stage.recorder.calls[1]
    assert (second.parent, second.kept) == (0, len(stream_ids(stage.recorder.calls, 0)))


@pytest.mark.parametrize("signature", ["skip_thought_signature_validator", "", "YXN0dW5lcg==", 5, None, "YXN0dW5lcjr/"])
def test_signatures_of_other_models_hold_no_reasoning(signature: Any) -> None:
    call = {"functionCall": {"name": "add"}, "thoughtSignature": signature}
    answer = {"functionResponse": {"name": "add", "response": {}}}
    messages = read(USER, {"role": "model", "parts": [call]}, {"role": "user", "parts": [answer]}).messages
    assert "reasoning_content" not in messages[1]


@pytest.mark.asyncio
async def test_several_candidates_have_their_numbers_and_one_usage(serving: Any) -> None:
    body = {**ASK, "generationConfig": {"candidateCount": 2}}
    async with serving("yes") as stage, http(stage) as client:
        whole, streamed = (await client.post(PATH, json=body)).json(), events(await client.post(STREAM, json=body))
    assert [candidate["index"] for candidate in whole["candidates"]] == [0, 1]
    assert {candidate["index"] for event in streamed for candidate in event.get("candidates", ())} == {0, 1}
    assert [event for event in streamed if "usageMetadata" in event] == [streamed[-1]]
    assert streamed[-1]["usageMetadata"] == {
        **whole["usageMetadata"],
        "cachedContentTokenCount": streamed[-1]["usageMetadata"]["cachedContentTokenCount"],
    }


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["header", "bearer", "query"])
async def test_the_key_comes_in_three_ways(serving: Any, way: str) -> None:
    async with serving("yes") as stage:
        key = stage.recorder.tuner.as_oai_baseurl_apikey("scout").api_key
        headers = {"header": {"x-goog-api-key": key}, "bearer": {"authorization": f"Bearer {key}"}, "query": {"x": "y"}}[way]
        query = f"?key={key}" if way == "query" else ""
        async with http(stage, **headers) as client:
            codes = [
                (await client.post(f"/v1beta/models/m:{method}{query}", json=ASK)).status_code
                for method in ("generateContent", "streamGenerateContent", "countTokens")
            ]
    assert codes == [200, 200, 200]
    assert {call.agent for call in stage.recorder.calls} == {"scout"}


@pytest.mark.asyncio
@pytest.mark.parametrize("version", ["v1", "v1alpha"])
async def test_other_versions_in_the_path_are_served_alike(serving: Any, version: str) -> None:
    async with serving("yes") as stage, http(stage) as client:
        whole, streamed, counted, unknown = [
            await client.post(f"/{version}/models/m:{method}", json=ASK)
            for method in ("generateContent", "streamGenerateContent", "countTokens", "embedContent")
        ]
    assert join(parts_of([whole.json()]))[1] == "yes"
    assert join(parts_of(events(streamed)))[1] == "yes"
    assert counted.json()["totalTokens"] == len(stage.recorder.calls[0].prompt_ids)
    assert (unknown.status_code, unknown.json()["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.asyncio
@pytest.mark.parametrize("version", ["v1", "v1beta"])
async def test_models_are_listed_as_the_key_wants(serving: Any, version: str) -> None:
    async with serving("yes") as stage, http(stage) as client:
        listed = (await client.get(f"/{version}/models")).json()
        shown = (await client.get(f"/{version}/models/astuner")).json()
        other = await client.get(f"/{version}/models/other")
        key = client.headers.pop("x-goog-api-key")
        as_openai = await client.get("/v1/models", headers={"authorization": f"Bearer {key}"})
        without = await client.get("/v1beta/models")
    assert [model["name"] for model in listed["models"]] == ["models/astuner"]
    assert shown == listed["models"][0]
    assert (other.status_code, other.json()["error"]["status"]) == (404, "NOT_FOUND")
    assert as_openai.json()["data"][0]["id"] == "astuner"
    assert without.status_code == 401


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent", "countTokens"])
async def test_a_key_ends_with_its_episode(serving: Any, method: str) -> None:
    async with serving("yes") as stage, http(stage) as client:
        await stage.recorder.close()
        answer = await client.post(f"/v1beta/models/astuner@side:{method}", json=ASK)
    assert (answer.status_code, answer.json()["error"]["status"]) == (401, "UNAUTHENTICATED")


@pytest.mark.asyncio
@pytest.mark.parametrize("method", ["generateContent", "streamGenerateContent"])
async def test_the_model_in_the_path_names_the_target(serving: Any, method: str) -> None:
    async with serving("yes", trainable_targets=["scout"]) as stage, http(stage) as client:
        for model in ("gemini-9", "astuner@side", "astuner%40side"):
            assert (await client.post(f"/v1beta/models/{model}:{method}", json=ASK)).status_code == 200
        refused = await client.post(f"/v1beta/models/astunr@side:{method}", json={**ASK, "model": "astuner"})
    assert [call.untrained for call in stage.recorder.calls] == [None, "frozen_agent", "frozen_agent"]
    assert (refused.status_code, refused.json()["error"]["status"]) == (404, "NOT_FOUND")


@pytest.mark.asyncio
async def test_tokens_are_counted_as_they_would_be_sent_and_not_recorded(serving: Any) -> None:
    body = {**ASK, "tools": TOOLS, "systemInstruction": {"parts": [{"text": "be brief"}]}}
    async with serving("yes") as stage, http(stage) as client:
        counts = [
            (await client.post("/v1beta/models/m:countTokens", json=sent)).json()["totalTokens"]
            for sent in (body, {"generateContentRequest": {"model": "models/m", **body}})
        ]
        assert not stage.recorder.calls
        await client.post(PATH, json=body)
    assert counts == [len(stage.recorder.calls[0].prompt_ids)] * 2


@pytest.mark.asyncio
async def test_a_full_context_and_an_unknown_route_have_googles_shape(serving: Any) -> None:
    async with serving("yes", max_model_len=60) as stage, http(stage) as client:
        full = await client.post(PATH, json=read_long())
        unknown = await client.post("/v1beta/models/m:embedContent", json=ASK)
    schema = {**read_document(Path(__file__).parent / "openapi")["components"]["schemas"]["GoogleError"]}
    for response in (full, unknown):
        jsonschema.Draft202012Validator(schema).validate(response.json())
    assert full.status_code == 400
    assert full.json()["error"]["message"].startswith("The input token count exceeds the maximum number of tokens allowed")
    assert (unknown.status_code, unknown.json()["error"]["status"]) == (404, "NOT_FOUND")


def read_long() -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": [{"text": "word " * 200}]}]}


class Failing:
    """Says a word and fails."""

    capabilities = Capabilities()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> AsyncIterator[Chunk]:
        yield Chunk(ids=[70, 71], logprobs=[-1.0, -2.0])
        raise RuntimeError("out of memory")


@pytest.mark.asyncio
async def test_a_failure_in_the_middle_of_a_stream_is_an_event(serving: Any) -> None:
    async with serving(engine=Failing()) as stage, http(stage) as client:
        streamed, whole = await client.post(STREAM, json=ASK), await client.post(PATH, json=ASK)
    assert streamed.status_code == 200
    for error in (events(streamed)[-1]["error"], whole.json()["error"]):
        assert (error["code"], error["status"]) == (503, "UNAVAILABLE")


@pytest.mark.asyncio
async def test_hosted_tools_are_left_out_and_reported_once(serving: Any) -> None:
    hosted = [{"googleSearch": {}}, {"urlContext": {}}, {"code_execution": {}}, *TOOLS]
    async with serving("yes") as stage, http(stage) as client:
        for _ in range(2):
            assert (await client.post(PATH, json={**ASK, "tools": hosted})).status_code == 200
    assert [tool["function"]["name"] for tool in stage.recorder.calls[0].tools] == ["add"]
    notices = [notice for notice in stage.recorder.notices if "googleSearch" in notice]
    assert [notice.partition(": ")[2].partition(": ")[2] for notice in notices] == ["googleSearch, urlContext, codeExecution."]


@pytest.mark.asyncio
async def test_sampling_is_governed_as_in_other_apis(serving: Any) -> None:
    config = {"temperature": 0.2, "topK": 64, "maxOutputTokens": 2, "presencePenalty": 1}
    async with serving("a long answer of many words") as stage, http(stage) as client:
        answer = (await client.post(PATH, json={**ASK, "generationConfig": config})).json()
    assert stage.recorder.calls[0].temperature == 1.0
    assert answer["candidates"][0]["finishReason"] == "MAX_TOKENS"
    assert len(stage.recorder.calls[0].output_ids) == 2
    assert any("generationConfig.presencePenalty" in notice for notice in stage.recorder.notices)


def test_snake_case_is_read_too() -> None:
    declared = [{"function_declarations": [{"name": "add", "parameters_json_schema": {"type": "object"}}]}]
    config = {"max_output_tokens": 5, "stop_sequences": ["END"], "thinking_config": {"thinking_budget": 0}}
    found = read(
        USER,
        {"role": "model", "parts": [{"function_call": {"name": "add", "args": {"some_name": 1}}}]},
        {"role": "user", "parts": [{"function_response": {"name": "add", "response": {"some_name": 2}}}]},
        system_instruction={"parts": [{"text": "be brief"}]},
        tools=declared,
        generation_config=config,
    )
    assert [message["role"] for message in found.messages] == ["system", "user", "assistant", "tool"]
    assert (found.max_tokens, found.stop, found.template_kwargs) == (5, ("END",), {"enable_thinking": False})
    assert json.loads(found.messages[2]["tool_calls"][0]["function"]["arguments"]) == {"some_name": 1}
    assert json.loads(found.messages[3]["content"]) == {"some_name": 2}


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"output": "3"}, "3"),
        ({"output": {"a": 1}}, '{"a": 1}'),
        ({"error": "none"}, "Error:\nnone"),
        ({"sum": 3}, '{"sum": 3}'),
        ({"output": "3", "error": "x"}, '{"output": "3", "error": "x"}'),
        ({}, "{}"),
    ],
)
def test_a_response_is_read_as_its_outcome(response: Any, expected: str) -> None:
    call = {"role": "model", "parts": [{"functionCall": {"name": "add"}}]}
    answer = {"role": "user", "parts": [{"functionResponse": {"name": "add", "response": response}}]}
    assert read(USER, call, answer).messages[-1]["content"] == expected


def test_responses_without_ids_belong_to_the_calls_in_their_order() -> None:
    calls = [{"functionCall": {"name": name, "args": {}}} for name in ("a", "b", "a")]
    answers = [
        {"functionResponse": {"name": name, "response": {"output": text}}} for name, text in (("b", "2"), ("a", "1"), ("a", "3"))
    ]
    messages = read(USER, {"role": "model", "parts": calls}, {"role": "user", "parts": answers}).messages
    ids = [call["id"] for call in messages[1]["tool_calls"]]
    assert len(set(ids)) == 3
    assert [message["tool_call_id"] for message in messages[2:]] == [ids[1], ids[0], ids[2]]


@pytest.mark.parametrize(
    ("mode", "allowed", "expected"),
    [
        ("ANY", [], ["add", "sub"]),
        ("ANY", ["sub"], ["sub"]),
        ("AUTO", [], None),
        ("NONE", [], None),
        ("VALIDATED", ["add"], None),
    ],
)
def test_the_mode_of_calling_is_a_constraint(mode: str, allowed: list[str], expected: list[str] | None) -> None:
    config = {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": allowed}}
    found = read(USER, tools=[{"functionDeclarations": [ADD, {"name": "sub"}]}], toolConfig=config)
    assert (found.constraint and [tool["function"]["name"] for tool in found.constraint["tools"]]) == expected
    assert found.calls_tools == (mode != "NONE")


@pytest.mark.parametrize("name", ["responseSchema", "responseJsonSchema"])
def test_a_schema_of_the_response_is_a_constraint(name: str) -> None:
    schema = {"type": "OBJECT", "properties": {"type": {"type": "STRING", "nullable": True}}, "propertyOrdering": ["type"]}
    found = read(USER, generationConfig={"responseMimeType": "application/json", name: schema}).constraint
    expected = {"type": "object", "properties": {"type": {"type": ["string", "null"]}}}
    assert found == {"type": "json_schema", "schema": expected}


def test_json_without_a_schema_is_a_constraint() -> None:
    assert read(USER, generationConfig={"responseMimeType": "application/json"}).constraint == {"type": "json_object"}


TYPES = st.sampled_from(["string", "number", "integer", "boolean"])
SCHEMAS = st.recursive(
    st.builds(lambda kind: {"type": kind}, TYPES),
    lambda inner: st.one_of(
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(
            lambda fields: {"type": "object", "properties": fields},
            st.dictionaries(st.sampled_from(["type", "enum", "x"]), inner),
        ),
    ),
    max_leaves=6,
)


def write_as_google(schema: Any) -> Any:
    found = {**schema, "type": schema["type"].upper()}
    if "items" in found:
        found["items"] = write_as_google(found["items"])
    if "properties" in found:
        found["properties"] = {name: write_as_google(inner) for name, inner in found["properties"].items()}
    return found


@given(SCHEMAS)
def test_googles_schemas_are_json_schemas_in_upper_case(schema: Any) -> None:
    assert to_json_schema(schema) == schema
    assert to_json_schema(write_as_google(schema)) == schema


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"contents": []}, "contents"),
        ({"contents": "hello"}, "contents"),
        ({"contents": ["hello"]}, "contents[0]"),
        ({"contents": [{"role": "system", "parts": [{"text": "x"}]}]}, "contents[0].role"),
        ({"contents": [{"role": "user", "parts": []}]}, "contents[0].parts"),
        ({"contents": [{"role": "user", "parts": "x"}]}, "contents[0].parts"),
        ({"contents": [{"role": "user", "parts": [1]}]}, "contents[0].parts[0]"),
        ({"contents": [{"role": "user", "parts": [{"text": 1}]}]}, "contents[0].parts[0].text"),
        ({"contents": [{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png"}}]}]}, "contents[0].parts[0]"),
        ({"contents": [{"role": "user", "parts": [{"fileData": {}}]}]}, "contents[0].parts[0]"),
        ({"contents": [USER, {"role": "model", "parts": [{"executableCode": {}}]}, USER]}, "contents[1].parts[0]"),
        (
            {"contents": [USER, {"role": "model", "parts": [{"functionCall": {}}]}, USER]},
            "contents[1].parts[0].functionCall.name",
        ),
        (
            {"contents": [{"role": "user", "parts": [{"functionResponse": {"response": {}}}]}]},
            "contents[0].parts[0].functionResponse.name",
        ),
        ({"systemInstruction": {"parts": [{"inlineData": {}}]}}, "systemInstruction.parts[0]"),
        ({"cachedContent": "cachedContents/1"}, "cachedContent"),
        ({"tools": [5]}, "tools[0]"),
        ({"tools": [{"functionDeclarations": [{}]}]}, "tools[0].functionDeclarations[0].name"),
        ({"toolConfig": {"functionCallingConfig": {"mode": "SOME"}}}, "toolConfig.functionCallingConfig.mode"),
        (
            {"toolConfig": {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["x"]}}},
            "toolConfig.functionCallingConfig.allowedFunctionNames",
        ),
        ({"generationConfig": {"responseMimeType": "text/x.enum"}}, "generationConfig.responseMimeType"),
        ({"generationConfig": {"responseModalities": ["IMAGE"]}}, "generationConfig.responseModalities"),
        ({"generationConfig": {"maxOutputTokens": 0}}, "maxOutputTokens"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_place(change: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as caught:
        gemini_request({**ASK, **change})
    assert (caught.value.status, caught.value.param) == (400, param)


class Remote:
    """Speaks chat and knows no token ids."""

    capabilities = Capabilities(token_ids=False)

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def chat(self, body: Any) -> Any:
        return {"choices": [{"message": {"content": "three"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9}}


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_an_engine_without_token_ids_is_asked_in_chat(serving: Any, stream: bool) -> None:
    async with serving(engine=Remote()) as stage, http(stage) as client:
        response = await client.post(STREAM if stream else PATH, json=ASK)
        counted = await client.post("/v1beta/models/m:countTokens", json=ASK)
    assert join(parts_of(events(response) if stream else [response.json()]))[1] == "three"
    assert counted.status_code == 400
    assert stage.recorder.calls[0].untrained == "no_token_ids"
