"""The Responses API, as the real OpenAI SDK speaks it.

One file, long as it is: a small test for each thing that the API promises.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from astuner.contract.schema import Capabilities, Chunk, Request
from astuner.contract.token_streams import conversation, stream_ids

ADD: dict[str, Any] = {"type": "function", "name": "add", "parameters": {"type": "object", "properties": {}}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a":1,  "b": 2}}\n</tool_call>'


def follows(stage: Any, index: int) -> bool:
    """Whether a call continues the whole stream of the one before it."""
    call = stage.recorder.calls[index]
    return call.parent == index - 1 and call.kept == len(stream_ids(stage.recorder.calls, index - 1))


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_a_plain_answer(serving: Any, way: str) -> None:
    async with serving("three, été 中文 🙂") as stage:
        answer = await getattr(stage, way)().responses.create(model="any", input="what is 1 and 2?", instructions="be brief")
    call = stage.recorder.calls[0]
    assert answer.output_text == "three, été 中文 🙂"
    assert (answer.status, answer.incomplete_details, answer.error) == ("completed", None, None)
    assert answer.usage.output_tokens == len(call.output_ids)
    assert answer.usage.input_tokens == len(call.prompt_ids)
    assert call.messages == (
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "what is 1 and 2?"},
    )


@pytest.mark.asyncio
async def test_an_empty_answer_is_an_empty_message(serving: Any) -> None:
    async with serving("") as stage:
        answer = await stage.client().responses.create(model="any", input="hello")
    assert [item.type for item in answer.output] == ["message"]
    assert answer.output_text == ""


@pytest.mark.asyncio
async def test_a_cut_answer_is_incomplete(serving: Any) -> None:
    async with serving("word " * 100) as stage:
        answer = await stage.client().responses.create(model="any", input="hello", max_output_tokens=20)
        async with stage.client().responses.stream(model="any", input="hello", max_output_tokens=20) as stream:
            last = [event async for event in stream][-1]
    assert (answer.status, answer.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert answer.output[0].status == "incomplete"
    assert (last.type, last.response.output_text) == ("response.incomplete", answer.output_text)


@pytest.mark.asyncio
async def test_the_events_of_a_stream_add_up_to_the_whole_answer(serving: Any) -> None:
    said = f"<think>\nhm, hm\n</think>\n\nlet me see\n{CALL}\n{CALL}"
    async with serving(said) as stage:
        whole = await stage.client().responses.create(model="any", input="hello", tools=[ADD])
        events = [e async for e in await stage.client().responses.create(model="any", input="hello", tools=[ADD], stream=True)]
    final = events[-1].response
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [item.type for item in final.output] == ["reasoning", "message", "function_call", "function_call"]
    assert final.output[0].content[0].text == whole.output[0].content[0].text == "hm, hm"
    assert final.output_text == whole.output_text == "let me see"
    assert [call.arguments for call in final.output[2:]] == ['{"a":1,  "b": 2}'] * 2
    deltas = [event.delta for event in events if event.type == "response.reasoning_text.delta"]
    assert "".join(deltas) == "hm, hm"
    assert final.usage.output_tokens == whole.usage.output_tokens
    assert final.usage.output_tokens_details.reasoning_tokens == whole.usage.output_tokens_details.reasoning_tokens > 5
    done = {event.output_index: event.item for event in events if event.type == "response.output_item.done"}
    assert [done[number] for number in range(4)] == final.output


@pytest.mark.asyncio
async def test_the_events_come_in_the_order_of_the_api(serving: Any) -> None:
    async with serving(f"ok\n{CALL}") as stage:
        events = [e async for e in await stage.client().responses.create(model="any", input="hello", tools=[ADD], stream=True)]
    kinds = [event.type.removeprefix("response.") for event in events]
    assert kinds[:4] == ["created", "in_progress", "output_item.added", "content_part.added"]
    call = [event.type.removeprefix("response.") for event in events if getattr(event, "output_index", 0) == 1]
    assert call == [
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
    ]
    assert kinds[-4:] == ["output_text.done", "content_part.done", "output_item.done", "completed"]


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_the_sdks_own_accumulator_takes_the_stream(serving: Any, way: str) -> None:
    strict = {**ADD, "strict": True}
    async with serving(f"<think>\nhm\n</think>\n\nlet me see\n{CALL}\n{CALL}") as stage:
        manager = getattr(stage, way)().responses.stream(model="any", input="hello", tools=[strict])
        async with manager as stream:
            answer = await stream.get_final_response()
    assert answer.output_text == "let me see"
    assert [item.parsed_arguments for item in answer.output if item.type == "function_call"] == [{"a": 1, "b": 2}] * 2


@pytest.mark.asyncio
async def test_the_synchronous_client_is_served_too(serving: Any) -> None:
    def ask(api: Any) -> list[str]:
        with openai.OpenAI(base_url=api.base_url, api_key=api.api_key, max_retries=0) as client:
            with client.responses.stream(model="any", input="hello") as stream:
                streamed = stream.get_final_response()
            return [streamed.output_text, client.responses.create(model="any", input="hello").output_text]

    async with serving("three") as stage:
        texts = await asyncio.to_thread(ask, stage.recorder.tuner.as_oai_baseurl_apikey())
    assert texts == ["three", "three"]


class Sum(BaseModel):
    value: int


@pytest.mark.asyncio
async def test_an_answer_in_a_format_that_was_not_enforced_is_trained(serving: Any) -> None:
    async with serving('{"value": 3}') as stage:
        answer = await stage.client().responses.parse(model="any", input="what is 1 and 2?", text_format=Sum)
    assert answer.output_parsed == Sum(value=3)
    assert stage.recorder.calls[0].untrained is None


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("choice", "items"),
    [
        ("auto", ["function_call"]),
        ("none", ["message"]),
        ("required", ["function_call"]),
        ({"type": "function", "name": "add"}, ["function_call"]),
    ],
)
async def test_tool_choice(serving: Any, choice: Any, items: list[str]) -> None:
    async with serving(CALL) as stage:
        answer = await stage.client().responses.create(model="any", input="hello", tools=[ADD], tool_choice=choice)
    assert [item.type for item in answer.output] == items
    assert stage.recorder.calls[0].untrained is None


@pytest.mark.asyncio
async def test_only_one_call_where_no_parallel_ones_are_wanted(serving: Any) -> None:
    async with serving(CALL + CALL) as stage:
        answer = await stage.client().responses.create(model="any", input="hello", tools=[ADD], parallel_tool_calls=False)
    assert len(answer.output) == 1


@pytest.mark.asyncio
async def test_logprobs_come_when_they_are_included(serving: Any) -> None:
    asked: dict[str, Any] = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
    async with serving("one two") as stage:
        answer = await stage.client().responses.create(model="any", input="hello", **asked)
        without = await stage.client().responses.create(model="any", input="hello", top_logprobs=2)
        stream = await stage.client().responses.create(model="any", input="hello", stream=True, **asked)
        last = [event async for event in stream][-1]
    assert "".join(token.token for token in answer.output[0].content[0].logprobs) == "one two<|im_end|>"
    assert last.response.output[0].content[0].logprobs == answer.output[0].content[0].logprobs
    assert without.output[0].content[0].logprobs == []


@pytest.mark.asyncio
async def test_what_was_asked_is_said_back(serving: Any) -> None:
    asked: dict[str, Any] = {
        "instructions": "be brief",
        "metadata": {"some": "thing"},
        "max_output_tokens": 50,
        "reasoning": {"effort": "low"},
        "store": False,
        "temperature": 0.5,
        "tools": [ADD],
        "user": "me",
    }
    async with serving("yes") as stage:
        answer = await stage.client().responses.create(model="any", input="hello", **asked)
    shown = answer.model_dump(exclude_none=True)
    assert {name: shown[name] for name in asked} == asked
    assert answer.tool_choice == "auto"


REASONED = [f"<think>\nhm\n</think>\n\nlet me see\n{CALL}\n{CALL}", "<think>\nso\n</think>\n\nit is 3"]


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("back", ["items", "previous_response_id"])
@pytest.mark.parametrize("says", [[CALL, "it is 3"], REASONED, [f"{CALL}\nnow wait", "it is 3"]])
async def test_a_tool_loop_is_one_stream(make_renderer: Any, serving: Any, says: list[str], back: str, streamed: bool) -> None:
    async with serving(list(says)) as stage:
        client, given, previous = stage.client(), [{"role": "user", "content": "what is 1 and 2?"}], openai.omit
        for _ in range(2):
            asked = {"model": "any", "instructions": "be brief", "tools": [ADD], "input": given, "previous_response_id": previous}
            if streamed:
                async with client.responses.stream(**asked) as stream:
                    answer = await stream.get_final_response()
            else:
                answer = await client.responses.create(**asked)
            outputs = [
                {"type": "function_call_output", "call_id": item.call_id, "output": "3"}
                for item in answer.output
                if item.type == "function_call"
            ]
            if back == "items":
                given = [*given, *answer.output, *outputs]
            else:
                given, previous = outputs, answer.id
    assert follows(stage, 1)
    assert answer.output_text == "it is 3"
    assert {message["role"] for message in stage.recorder.calls[1].messages} == {"tool"}


@pytest.mark.asyncio
async def test_items_with_nothing_but_what_the_api_needs_continue_too(serving: Any) -> None:
    async with serving(list(REASONED)) as stage:
        answer = await stage.client().responses.create(model="any", input="hello", tools=[ADD])
        items = [json.loads(item.to_json(exclude_none=True)) for item in answer.output]
        bare = [{key: value for key, value in item.items() if key not in ("id", "status")} for item in items]
        outputs = [{"type": "function_call_output", "call_id": item["call_id"], "output": "3"} for item in bare[2:]]
        user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
        await stage.client().responses.create(model="any", input=[user, *bare, *outputs], tools=[ADD])
    assert follows(stage, 1)


@pytest.mark.asyncio
async def test_an_edited_answer_begins_a_branch(serving: Any) -> None:
    async with serving(["yes", "no"]) as stage:
        answer = await stage.client().responses.create(model="any", input="hello")
        items = [item.to_dict() for item in answer.output]
        items[0]["content"][0]["text"] = "Yes"
        again = [{"role": "user", "content": "hello"}, *items, {"role": "user", "content": "why?"}]
        await stage.client().responses.create(model="any", input=again)
    first, second = stage.recorder.calls
    assert second.kept <= len(first.prompt_ids)


@pytest.mark.asyncio
async def test_instructions_do_not_outlive_their_response(serving: Any) -> None:
    async with serving(["yes", "no", "so"]) as stage:
        first = await stage.client().responses.create(model="any", input="hello", instructions="be brief")
        second = await stage.client().responses.create(model="any", input="why?", previous_response_id=first.id)
        await stage.client().responses.create(model="any", input="how?", previous_response_id=second.id, instructions="be long")
    assert stage.recorder.calls[1].parent is None
    said = [[message["content"] for message in call.messages] for call in stage.recorder.calls]
    assert said[1:] == [["hello", "yes", "why?"], ["be long", "hello", "yes", "why?", "no", "how?"]]


@pytest.mark.asyncio
async def test_a_response_by_its_id_is_all_that_was_said_before_it(serving: Any) -> None:
    async with serving(["one", "two", "three"]) as stage:
        previous = openai.omit
        for question in ("1?", "2?", "3?"):
            asked = {"input": question, "previous_response_id": previous}
            previous = (await stage.client().responses.create(model="any", **asked)).id
        calls = stage.recorder.calls
    assert [follows(stage, index) for index in (1, 2)] == [True, True]
    said = [message["content"] for message in (*conversation(calls, 2), calls[2].reply)]
    assert said == ["1?", "one", "2?", "two", "3?", "three"]


@pytest.mark.asyncio
async def test_a_response_is_known_while_the_call_that_its_prompt_came_from_still_runs(serving: Any) -> None:
    engine = Held()
    async with serving(engine=engine) as stage:
        client = stage.client()
        first = asyncio.create_task(client.responses.create(model="any", input="hello"))
        await engine.begun.wait()
        second = await client.responses.create(model="any", input="hello")
        third = await client.responses.create(model="any", input="why?", previous_response_id=second.id)
        engine.go.set()
        await first
    assert third.status == "incomplete"
    assert [call.parent for call in stage.recorder.calls] == [None, 0, 1]


@pytest.mark.asyncio
async def test_two_requests_may_go_on_from_one_response(serving: Any) -> None:
    async with serving(["yes", "no", "no"]) as stage:
        first = await stage.client().responses.create(model="any", input="hello")
        for question in ("why?", "how?"):
            await stage.client().responses.create(model="any", input=question, previous_response_id=first.id)
    assert [call.parent for call in stage.recorder.calls] == [None, 0, 0]
    assert len({call.kept for call in stage.recorder.calls[1:]}) == 1


@pytest.mark.asyncio
async def test_a_kept_response_is_served_whole_and_nothing_else_of_it(serving: Any) -> None:
    async with serving("yes") as stage:
        responses = stage.client().responses
        made = await responses.create(model="any", input="hello")
        with pytest.raises(openai.NotFoundError, match=f"is served whole: GET /v1/responses/{made.id}"):
            await responses.input_items.list(made.id)
        with pytest.raises(openai.NotFoundError, match="is served whole"):
            await responses.retrieve(made.id, stream=True)


@pytest.mark.asyncio
async def test_responses_of_another_episode_are_not_known(serving: Any) -> None:
    async with serving(["yes", "no"]) as stage:
        other = stage.gateway.open_episode(stage.recorder.spec)
        answer = await other.tuner.as_raw_openai_sdk_client().responses.create(model="any", input="hello")
        with pytest.raises(openai.BadRequestError) as caught:
            await stage.client().responses.create(model="any", input="why?", previous_response_id=answer.id + "0")
        await other.close()
    assert (caught.value.code, caught.value.param) == ("previous_response_not_found", "previous_response_id")


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"input": None}, "input"),
        ({"input": []}, "input"),
        ({"input": 5}, "input"),
        ({"input": ["hello"]}, "input[0]"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
        ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "input[0]"),
        ({"input": [{"type": ["message"]}]}, "input[0]"),
        ({"input": [{"role": "robot", "content": "x"}]}, "input[0].role"),
        ({"input": [{"role": "user"}]}, "input[0].content"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "input[0].content[0]"),
        ({"input": [{"type": "function_call", "name": "add", "call_id": "1"}]}, "input[0].arguments"),
        ({"input": [{"type": "function_call_output", "call_id": "1"}]}, "input[0].output"),
        ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}, "input[0].encrypted_content"),
        ({"input": "\ud800"}, "input"),
        ({"instructions": 5}, "instructions"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"type": "telepathy"}]}, "tools[0]"),
        ({"tools": [{"type": "function"}]}, "tools[0]"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {"type": "function", "name": "sub"}}, "tool_choice"),
        ({"tools": [ADD], "tool_choice": {"type": "web_search"}}, "tool_choice"),
        ({"max_output_tokens": 0}, "max_output_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"text": {"format": {"type": "yaml"}}}, "text.format"),
        ({"text": "json"}, "text"),
        ({"reasoning": {"effort": 5}}, "reasoning.effort"),
        ({"previous_response_id": "resp_none"}, "previous_response_id"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"truncation": "middle"}, "truncation"),
        ({"include": "everything", "metadata": 5}, "metadata"),
        ({"include": [5]}, "include"),
        ({"stream": "yes"}, "stream"),
    ],
)
async def test_a_bad_body_is_400_and_names_the_parameter(serving: Any, change: dict[str, Any], param: str) -> None:
    async with serving("yes") as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey()
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {api.api_key}"}) as client:
            response = await client.post(f"{api.base_url}/responses", content=json.dumps({"input": "hello", **change}))
    assert (response.status_code, response.json()["error"]["param"]) == (400, param)
    assert stage.recorder.calls == ()


@pytest.mark.asyncio
async def test_a_full_context_names_the_input(serving: Any) -> None:
    async with serving("yes", max_model_len=30) as stage:
        with pytest.raises(openai.BadRequestError) as caught:
            await stage.client().responses.create(model="any", input="word " * 40)
    assert (caught.value.code, caught.value.param) == ("context_length_exceeded", "input")


@pytest.mark.asyncio
async def test_an_engine_that_fails_in_the_middle_fails_the_response(serving: Any) -> None:
    async with serving(engine=Failing()) as stage:
        stream = await stage.client().responses.create(model="any", input="hello", stream=True)
        events = [event async for event in stream]
    assert (events[-1].type, events[-1].response.status) == ("response.failed", "failed")
    assert "out of memory" in events[-1].response.error.message


class Failing:
    """Says a token and breaks."""

    capabilities = Capabilities()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def release(self, session: str) -> None: ...

    async def generate(self, request: Request) -> Any:
        yield Chunk(ids=[70, 71], logprobs=[-1.0, -2.0])
        raise RuntimeError("out of memory")


class Held(Failing):
    """Says a token; the first time, not before it is told to."""

    def __init__(self) -> None:
        self.begun, self.go = asyncio.Event(), asyncio.Event()

    async def generate(self, request: Request) -> Any:
        if not self.begun.is_set():
            self.begun.set()
            await self.go.wait()
        yield Chunk(ids=[70], logprobs=[-1.0], finish_reason="length")


class Remote(Failing):
    """Speaks chat and nothing else."""

    capabilities = Capabilities(token_ids=False, logprobs=False)

    def __init__(self) -> None:
        self.bodies: list[Any] = []

    async def chat(self, body: Any) -> Any:
        self.bodies.append(body)
        call = {"id": "call_1", "type": "function", "function": {"name": "add", "arguments": "{}"}}
        return {"choices": [{"message": {"content": "ok", "tool_calls": [call]}, "finish_reason": "tool_calls"}]}


@pytest.mark.asyncio
async def test_engines_that_speak_chat_get_a_chat_body(serving: Any) -> None:
    engine = Remote()
    async with serving(engine=engine) as stage:
        asked: dict[str, Any] = {"model": "any", "tools": [ADD], "instructions": "be brief"}
        answer = await stage.client().responses.create(input="hello", reasoning={"effort": "low"}, **asked)
        output = {"type": "function_call_output", "call_id": answer.output[1].call_id, "output": "3"}
        await stage.client().responses.create(input=[output], previous_response_id=answer.id, **asked)
    assert engine.bodies[0]["reasoning_effort"] == "low"
    assert engine.bodies[0]["tools"] == [
        {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
    ]
    assert [message["role"] for message in engine.bodies[1]["messages"]] == ["system", "user", "assistant", "tool"]


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_can_be_asked_for_again(serving: Any, stream: bool) -> None:
    async with serving("three") as stage:
        made = await stage.client().responses.create(model="any", input="hello", stream=stream)
        whole = [event async for event in made][-1].response if stream else made
        found = await stage.socket_client().responses.retrieve(whole.id)
    assert found == whole


@pytest.mark.asyncio
async def test_a_response_that_is_not_stored_or_not_known_is_not_found(serving: Any) -> None:
    async with serving("three") as stage:
        made = await stage.client().responses.create(model="any", input="hello", store=False)
        for name in (made.id, "resp_other"):
            with pytest.raises(openai.NotFoundError, match="not found in this episode"):
                await stage.client().responses.retrieve(name)


@pytest.mark.asyncio
@pytest.mark.parametrize("mode", ["auto", "required"])
async def test_only_allowed_tools_are_offered(serving: Any, renderer: Any, mode: str) -> None:
    note = {"type": "custom", "name": "note"}
    choice = {"type": "allowed_tools", "mode": mode, "tools": [{"type": "custom", "name": "note"}, {"type": "web_search"}]}
    async with serving("three") as stage:
        tools = [ADD, note, {"type": "web_search"}]
        answer = await stage.client().responses.create(model="any", input="hello", tools=tools, tool_choice=choice)
        wrong = {**choice, "tools": [{"type": "function", "name": "other"}]}
        with pytest.raises(openai.BadRequestError, match="among: add, note"):
            await stage.client().responses.create(model="any", input="hello", tools=tools, tool_choice=wrong)
    prompt = renderer.decode(stage.recorder.calls[0].prompt_ids.tolist())
    assert ('"note"' in prompt, '"add"' in prompt) == (True, False)
    assert answer.tool_choice.mode == mode
