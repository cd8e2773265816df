"""A conversation that ends with the assistant's text is continued on every API: the text is fed, and the model goes on."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from astuner.contract.token_streams import stream_ids

USER = {"role": "user", "content": "what is 2 and 2?"}
BEGUN = "The answer is"

WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [USER, {"role": "assistant", "content": BEGUN}]}),
    "chat with prefix": ("/v1/chat/completions", {"messages": [USER, {"role": "assistant", "content": BEGUN, "prefix": True}]}),
    "chat with continue_final_message": (
        "/v1/chat/completions",
        {
            "messages": [USER, {"role": "assistant", "content": [{"type": "text", "text": BEGUN}]}],
            "continue_final_message": True,
            "add_generation_prompt": False,
        },
    ),
    "anthropic": ("/v1/messages", {"max_tokens": 50, "messages": [USER, {"role": "assistant", "content": BEGUN}]}),
    "responses": ("/v1/responses", {"input": [USER, {"role": "assistant", "content": BEGUN}]}),
    "gemini": (
        "/v1beta/models/astuner:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "what is 2 and 2?"}]}, {"role": "model", "parts": [{"text": BEGUN}]}]},
    ),
}

CALLS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": (
        "/v1/chat/completions",
        {
            "messages": [
                USER,
                {
                    "role": "assistant",
                    "content": "hm",
                    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "add", "arguments": "{}"}}],
                },
            ]
        },
    ),
    "anthropic": (
        "/v1/messages",
        {
            "max_tokens": 50,
            "messages": [USER, {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "add", "input": {}}]}],
        },
    ),
    "responses": (
        "/v1/responses",
        {"input": [USER, {"type": "function_call", "call_id": "1", "name": "add", "arguments": "{}"}]},
    ),
    "gemini": (
        "/v1beta/models/astuner:generateContent",
        {
            "contents": [
                {"role": "user", "parts": [{"text": "q"}]},
                {"role": "model", "parts": [{"functionCall": {"name": "add", "args": {}}}]},
            ]
        },
    ),
}


async def post(stage: Any, path: str, body: Any) -> httpx.Response:
    api = stage.recorder.tuner.as_oai_baseurl_apikey()
    headers = {"authorization": f"Bearer {api.api_key}"}
    async with httpx.AsyncClient(base_url=api.base_url.removesuffix("/v1"), headers=headers) as client:
        return await client.post(path, json=body)


@pytest.mark.asyncio
@pytest.mark.parametrize(("path", "body"), WAYS.values(), ids=WAYS)
async def test_the_prompt_ends_with_the_beginning_and_the_answer_follows_it(serving: Any, renderer: Any, path: str, body: Any):
    async with serving(" four") as stage:
        response = await post(stage, path, body)
    assert response.status_code == 200, response.text
    [call] = stage.recorder.calls
    said = [USER, {"role": "assistant", "content": BEGUN}]
    wanted = renderer.tokenizer.apply_chat_template(said, tokenize=False, continue_final_message=True)
    assert renderer.decode(call.prompt_ids.tolist()) == wanted
    assert call.reply["content"] == " four"
    assert renderer.decode(stream_ids([call], 0).tolist()).startswith(wanted + " four")


@pytest.mark.asyncio
@pytest.mark.parametrize(("path", "body"), CALLS.values(), ids=CALLS)
async def test_calls_without_results_are_refused_on_every_api(serving: Any, path: str, body: Any):
    async with serving("four") as stage:
        response = await post(stage, path, body)
    assert (response.status_code, "alone can be continued" in response.text) == (400, True)
    assert stage.recorder.calls == ()


@pytest.mark.asyncio
async def test_the_whole_answer_continues_the_stream(serving: Any):
    async with serving([" four", "eight"]) as stage:
        await post(stage, *WAYS["chat"])
        more = [USER, {"role": "assistant", "content": f"{BEGUN} four"}, {"role": "user", "content": "and twice that?"}]
        await post(stage, "/v1/chat/completions", {"messages": more})
    first, second = stage.recorder.calls
    assert (second.parent, second.kept) == (0, len(stream_ids([first], 0)))


@pytest.mark.asyncio
async def test_an_answer_that_was_cut_goes_on_from_its_own_ids(serving: Any):
    async with serving(["one two three four five", " and more"]) as stage:
        ask = {"messages": [USER], "max_tokens": 5}
        cut = (await post(stage, "/v1/chat/completions", ask)).json()["choices"][0]["message"]["content"]
        await post(stage, "/v1/chat/completions", {"messages": [USER, {"role": "assistant", "content": cut}]})
    first, second = stage.recorder.calls
    assert first.finish_reason == "length"
    assert (second.parent, second.kept, len(second.prompt_ids)) == (0, len(stream_ids([first], 0)), 0)


@pytest.mark.asyncio
async def test_an_answer_that_had_ended_goes_on_before_its_end(serving: Any):
    async with serving(["four", ", I think"]) as stage:
        await post(stage, "/v1/chat/completions", {"messages": [USER]})
        await post(stage, "/v1/chat/completions", {"messages": [USER, {"role": "assistant", "content": "four"}]})
    first, second = stage.recorder.calls
    assert (second.parent, second.kept) == (0, len(stream_ids([first], 0)) - 1)


@pytest.mark.asyncio
async def test_a_new_turn_is_begun_where_the_body_says_so(serving: Any, renderer: Any):
    async with serving("four") as stage:
        await post(stage, "/v1/chat/completions", {**WAYS["chat"][1], "add_generation_prompt": True})
    [call] = stage.recorder.calls
    wanted = renderer.tokenizer.apply_chat_template(WAYS["chat"][1]["messages"], tokenize=False, add_generation_prompt=True)
    assert renderer.decode(call.prompt_ids.tolist()) == wanted


@pytest.mark.asyncio
async def test_a_response_that_was_begun_is_continued_as_one(serving: Any):
    async with serving([" four", "eight"]) as stage:
        first = (await post(stage, *WAYS["responses"])).json()
        await post(stage, "/v1/responses", {"input": "and twice that?", "previous_response_id": first["id"]})
    assert stage.recorder.calls[1].parent == 0
    assert stage.recorder.calls[1].kept == len(stream_ids(stage.recorder.calls, 0))
