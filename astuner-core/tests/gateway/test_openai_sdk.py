"""What the real OpenAI SDK gets, without a socket and through one.

One file, long as it is: a small test for each thing that the API promises.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import openai
import pytest
from slow_engine import Slow

from astuner.contract.schema import Capabilities, Request
from astuner.contract.token_streams import stream_ids
from astuner.episodes.builtin.engines.scripted_engine import ScriptedEngine
from astuner.model.gateway import Gateway
from astuner.model.rendering import TemplateRenderer
from astuner_devkit import until_so

USER = [{"role": "user", "content": "what is 1 and 2?"}]
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a":1,  "b": 2}}\n</tool_call>'


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_a_plain_answer(serving: Any, way: str) -> None:
    async with serving("three, été 中文 🙂") as stage:
        answer = await getattr(stage, way)().chat.completions.create(model="any", messages=USER)
    assert answer.choices[0].message.content == "three, été 中文 🙂"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == len(stage.recorder.calls[0].output_ids)
    assert answer.usage.prompt_tokens == len(stage.recorder.calls[0].prompt_ids)


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_a_streamed_answer_with_usage(serving: Any, way: str) -> None:
    async with serving("three, été 中文 🙂") as stage:
        stream = await getattr(stage, way)().chat.completions.create(
            model="any", messages=USER, stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == "three, été 中文 🙂"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].usage.completion_tokens == len(stage.recorder.calls[0].output_ids)
    assert len(chunks) > 4


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_parallel_tool_calls_keep_their_own_json(serving: Any, way: str) -> None:
    async with serving(f"let me see\n{CALL}\n{CALL}") as stage:
        answer = await getattr(stage, way)().chat.completions.create(model="any", messages=USER, tools=[ADD])
    message = answer.choices[0].message
    assert message.content == "let me see"
    assert [call.function.arguments for call in message.tool_calls] == ['{"a":1,  "b": 2}'] * 2
    assert len({call.id for call in message.tool_calls}) == 2
    assert answer.choices[0].finish_reason == "tool_calls"


@pytest.mark.asyncio
async def test_streamed_tool_calls_add_up_to_the_whole_answer(serving: Any) -> None:
    strict = {"type": "function", "function": {**ADD["function"], "strict": True}}
    async with serving(f"let me see\n{CALL}\n{CALL}") as stage:
        manager = stage.client().chat.completions.stream(model="any", messages=USER, tools=[strict])
        async with manager as stream:
            async for _ in stream:
                pass
            answer = await stream.get_final_completion()
        whole = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD])
    assert answer.choices[0].finish_reason == "tool_calls"
    assert answer.choices[0].message.content == whole.choices[0].message.content
    said = [[call.function.arguments for call in each.choices[0].message.tool_calls] for each in (answer, whole)]
    assert said[0] == said[1]


@pytest.mark.asyncio
async def test_a_tool_loop_is_one_stream(serving: Any, renderer: Any) -> None:
    async with serving([CALL, "it is 3"]) as stage:
        client, messages = stage.client(), list(USER)
        for _ in range(2):
            answer = await client.chat.completions.create(model="any", messages=messages, tools=[ADD])
            message = answer.choices[0].message
            messages.append(message.model_dump())
            messages += [{"role": "tool", "tool_call_id": call.id, "content": "3"} for call in message.tool_calls or ()]
    first, second = stage.recorder.calls
    assert (second.parent, second.kept) == (0, len(first.prompt_ids) + len(first.output_ids))
    assert [message["role"] for message in second.messages] == ["tool"]
    text = renderer.decode(stream_ids(stage.recorder.calls, 1))
    assert f"{CALL}<|im_end|>\n<|im_start|>user\n<tool_response>\n3\n</tool_response><|im_end|>" in text


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_several_choices_are_several_calls(serving: Any, stream: bool) -> None:
    def say(prompt: str, request: Request) -> str:
        return f"number {request.sampling.seed}"

    async with serving(say) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, n=3, stream=stream)
        texts = {0: "", 1: "", 2: ""}
        if stream:
            async for chunk in answer:
                for choice in chunk.choices:
                    texts[choice.index] += choice.delta.content or ""
        else:
            texts = {choice.index: choice.message.content for choice in answer.choices}
    assert len(set(texts.values())) == 3
    assert [call.parent for call in stage.recorder.calls] == [None, 0, 0]
    assert [call.reply["content"] for call in stage.recorder.calls] == [texts[number] for number in range(3)]


@pytest.mark.asyncio
async def test_logprobs_and_their_tokens(serving: Any) -> None:
    async with serving("one two") as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, logprobs=True, top_logprobs=2)
        stream = await stage.client().chat.completions.create(model="any", messages=USER, logprobs=True, stream=True)
        parts = [chunk.choices[0].logprobs async for chunk in stream]
    shown = answer.choices[0].logprobs.content
    assert "".join(token.token for token in shown) == "one two<|im_end|>"
    assert {token.logprob for token in shown} == {-0.5}
    assert [token.token for part in parts if part for token in part.content] == [token.token for token in shown]


@pytest.mark.asyncio
@pytest.mark.parametrize("stream", [False, True])
async def test_stop_strings_cut_the_text_and_drop_the_tokens_after_them(serving: Any, renderer: Any, stream: bool) -> None:
    async with serving("think END and more") as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, stop=["END"], stream=stream)
        if stream:
            text = "".join([chunk.choices[0].delta.content or "" async for chunk in answer])
        else:
            text = answer.choices[0].message.content
    call = stage.recorder.calls[0]
    assert text == "think "
    assert call.finish_reason == "stop"
    assert renderer.decode(call.output_ids.tolist()) in ("think END", "think END ")


@pytest.mark.asyncio
async def test_a_conversation_after_a_stop_string_goes_on_without_it(serving: Any, renderer: Any) -> None:
    async with serving(["think END and more", "done"]) as stage:
        messages = [*USER, {"role": "assistant", "content": "think "}, {"role": "user", "content": "go on"}]
        await stage.client().chat.completions.create(model="any", messages=USER, stop="END")
        await stage.client().chat.completions.create(model="any", messages=messages)
    first, second = stage.recorder.calls
    assert second.parent == 0
    assert len(first.prompt_ids) < second.kept < len(first.prompt_ids) + len(first.output_ids)
    assert "think <|im_end|>\n<|im_start|>user\ngo on" in renderer.decode(stream_ids(stage.recorder.calls, 1))


@pytest.mark.asyncio
async def test_reasoning_is_apart_from_content(serving: Any) -> None:
    async with serving("<think>\nhm\n</think>\n\nthree") as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER)
    assert answer.choices[0].message.content == "three"
    assert answer.choices[0].message.reasoning_content == "hm"


@pytest.mark.asyncio
async def test_reasoning_that_the_template_opens_is_read(serving: Any) -> None:
    async with serving("hm\n</think>\n\nthree") as stage:
        answer = await stage.client().chat.completions.create(
            model="any", messages=USER, extra_body={"chat_template_kwargs": {"open_think": True}}
        )
    assert answer.choices[0].message.reasoning_content == "hm"
    assert answer.choices[0].message.content == "three"


@pytest.mark.asyncio
@pytest.mark.parametrize("said", ["", "<think>\nhm, and"], ids=["the end at once", "reasoning that never ends"])
async def test_nothing_said_is_an_empty_text(serving: Any, said: str) -> None:
    async with serving(said) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD])
        again = [*USER, answer.choices[0].message, *USER]
        await stage.client().chat.completions.create(model="any", messages=again)
    assert answer.choices[0].message.content == stage.recorder.calls[0].reply["content"] == ""


@pytest.mark.asyncio
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("said", "limit", "kwargs", "is_cut"),
    [
        ("<think>\nhm, and so on and on", 6, {}, True),
        ("hm, and so on and on", 6, {"open_think": True}, True),
        ("<think>\nhm, and", 99, {}, False),
        ("<think>\nhm\n</think>\n\nthree and four and five", 12, {}, False),
        ("three and four and five", 3, {}, False),
    ],
    ids=["opened by the model", "opened by the prompt", "ended by the model", "cut behind it", "none"],
)
async def test_reasoning_that_a_limit_cuts_off_is_recorded_as_such(
    serving: Any, said: str, limit: int, kwargs: dict[str, Any], is_cut: bool, streamed: bool
) -> None:
    async with serving(said) as stage:
        body = {"chat_template_kwargs": kwargs}
        given: Any = {"model": "any", "messages": USER, "max_tokens": limit, "extra_body": body}
        answer = await stage.client().chat.completions.create(**given, stream=streamed)
        if streamed:
            [_ async for _ in answer]
    [call] = stage.recorder.calls
    assert (call.reply.get("cut_reasoning", False), call.finish_reason == "length") == (is_cut, limit < 99)
    assert streamed or not hasattr(answer.choices[0].message, "cut_reasoning")


@pytest.mark.asyncio
async def test_a_call_alone_has_no_text(serving: Any) -> None:
    async with serving(CALL) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD])
    assert answer.choices[0].message.content is None


@pytest.mark.asyncio
async def test_reasoning_tokens_are_counted(serving: Any, renderer: Any) -> None:
    async with serving("<think>\nhm, hm\n</think>\n\nthree") as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER)
        plain = await stage.client().chat.completions.create(model="any", messages=[*USER, *USER], stop=["<think>"])
    counted = answer.usage.completion_tokens_details.reasoning_tokens
    said = renderer.decode(stage.recorder.calls[0].output_ids[:counted])
    assert (said, plain.usage.completion_tokens_details.reasoning_tokens) == ("<think>\nhm, hm", 0)


@pytest.mark.asyncio
async def test_a_late_system_message_reaches_the_model(serving: Any, renderer: Any) -> None:
    messages = [*USER, {"role": "assistant", "content": "3"}, {"role": "system", "content": "now be brief"}, *USER]
    async with serving("yes") as stage:
        await stage.client().chat.completions.create(model="any", messages=messages)
    assert "system\nnow be brief<|im_end|>" in renderer.decode(stage.recorder.calls[0].prompt_ids)


@pytest.mark.asyncio
async def test_a_late_system_message_that_the_template_drops_is_refused(serving: Any, make_renderer: Any) -> None:
    async with serving("yes") as stage:
        renderer = TemplateRenderer(make_renderer("deaf").tokenizer, late_system_messages="template")
        gateway = Gateway(stage.engine, renderer)
        await gateway.start()
        client = gateway.open_episode(stage.recorder.spec).tuner.as_raw_openai_sdk_client()
        with pytest.raises(openai.BadRequestError, match="the model would never see it") as caught:
            await client.chat.completions.create(model="any", messages=[*USER, {"role": "developer", "content": "be brief"}])
        await gateway.close()
    assert caught.value.param == "messages[1]"


@pytest.mark.asyncio
async def test_two_names_are_two_conversations(serving: Any) -> None:
    async with serving("yes") as stage:
        for name in ("ann", "bob", "ann"):
            named = [{**USER[0], "name": name}]
            await stage.client().chat.completions.create(model="any", messages=named)
    assert [call.parent for call in stage.recorder.calls] == [None, None, 0]


@pytest.mark.asyncio
async def test_a_reasoning_effort_is_a_variable_of_the_template(serving: Any) -> None:
    async with serving(["yes", "yes"]) as stage:
        for effort in ("low", "high"):
            await stage.client().chat.completions.create(model="any", messages=USER, reasoning_effort=effort)
    assert [call.parent for call in stage.recorder.calls] == [None, None]


@pytest.mark.asyncio
async def test_a_malformed_tool_call_stays_in_the_content(serving: Any) -> None:
    async with serving("<tool_call>{add}</tool_call>") as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD])
    assert answer.choices[0].message.content == "<tool_call>{add}</tool_call>"
    assert answer.choices[0].finish_reason == "stop"
    assert stage.recorder.calls[0].reply["malformed_tool_call"] == 1
    assert not hasattr(answer.choices[0].message, "malformed_tool_call")


@pytest.mark.asyncio
async def test_only_one_tool_call_where_one_is_asked_for(serving: Any) -> None:
    async with serving(CALL + CALL) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD], parallel_tool_calls=False)
    assert len(answer.choices[0].message.tool_calls) == 1
    assert "only the first" in stage.recorder.notices[0]


@pytest.mark.asyncio
async def test_tool_calls_are_not_read_when_none_are_wanted(serving: Any) -> None:
    async with serving(CALL) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD], tool_choice="none")
    assert answer.choices[0].message.content == CALL
    assert stage.recorder.calls[0].untrained is None


JSON_SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {"type": "object"}}}


@pytest.mark.asyncio
@pytest.mark.parametrize(
    "asked",
    [
        {"tools": [ADD], "tool_choice": "required"},
        {"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "add"}}},
        {"response_format": {"type": "json_object"}},
        {"response_format": JSON_SCHEMA},
    ],
)
async def test_calls_that_the_engine_cannot_constrain_are_trained_with_one_notice(serving: Any, asked: dict[str, Any]) -> None:
    async with serving(CALL) as stage:
        for _ in range(2):
            await stage.client().chat.completions.create(model="any", messages=USER, **asked)
    assert [call.untrained for call in stage.recorder.calls] == [None, None]
    assert [text.partition(". ")[2] for text in stage.recorder.notices] == [
        "Its answers are sampled freely and trained, which enforced ones would not be; the agent must check their form itself "
        "(docs/recording.md#required-forms)."
    ]


class ConstrainingEngine(ScriptedEngine):
    """Can hold answers to JSON."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(constrained=True, constraints=("json_object", "json_schema"))


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("constraints", "enforced", "untrained"),
    [
        ("ignore", [None, "json_object"], [None, "frozen_agent"]),
        ("enforce", ["json_object", "json_object"], ["constrained", "frozen_agent"]),
    ],
)
async def test_constraints_hold_for_frozen_agents_and_where_they_are_enforced(
    serving: Any, renderer: TemplateRenderer, constraints: str, enforced: list[str | None], untrained: list[str | None]
) -> None:
    seen: list[Any] = []

    def say(prompt: str, request: Request) -> str:
        seen.append(request.constraint and request.constraint["type"])
        return "{}"

    engine = ConstrainingEngine(tokenizer=renderer.tokenizer, reply=say)
    async with serving(engine=engine, constraints=constraints, trainable_targets=["planner"]) as stage:
        for agent in ("planner", "critic"):
            await stage.client(agent).chat.completions.create(model="any", messages=USER, response_format={"type": "json_object"})
    assert seen == enforced
    assert [call.untrained for call in stage.recorder.calls] == untrained


@pytest.mark.asyncio
async def test_no_tool_call_is_required_of_an_agent_without_tools(serving: Any) -> None:
    async with serving("yes", disable_tools=True) as stage:
        await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD], tool_choice="required")
    assert stage.recorder.calls[0].untrained is None
    assert stage.recorder.notices == []


@pytest.mark.asyncio
async def test_sampling_of_the_configuration_wins_with_one_notice(serving: Any) -> None:
    seen: list[Request] = []

    def say(prompt: str, request: Request) -> str:
        seen.append(request)
        return "yes"

    async with serving(say) as stage:
        for _ in range(2):
            await stage.client().chat.completions.create(model="any", messages=USER, temperature=0.2, max_tokens=5)
    assert seen[0].sampling.temperature == 1.0
    assert seen[0].sampling.max_tokens == 5
    assert len(stage.recorder.notices) == 1


@pytest.mark.asyncio
async def test_a_frozen_agent_samples_as_it_likes_and_is_not_trained(serving: Any) -> None:
    seen: list[Request] = []

    def say(prompt: str, request: Request) -> str:
        seen.append(request)
        return "yes"

    async with serving(say, trainable_targets=["planner"]) as stage:
        await stage.client("critic").chat.completions.create(model="any", messages=USER, temperature=0.2)
        await stage.client("critic", "planner").chat.completions.create(model="any", messages=USER, temperature=0.2)
    assert [request.sampling.temperature for request in seen] == [0.2, 1.0]
    assert [call.untrained for call in stage.recorder.calls] == ["frozen_agent", None]


@pytest.mark.asyncio
async def test_seeds_do_not_depend_on_the_order_of_arrival(serving: Any) -> None:
    seeds: list[dict[str, int]] = []
    for order in (["a", "b", "a"], ["b", "a", "a"]):
        seen: dict[str, int] = {}

        def say(prompt: str, request: Request, seen: dict[str, int] = seen) -> str:
            seen[f"{request.session.split('/')[-1][0]}{len(seen)}"] = request.sampling.seed
            return "yes"

        async with serving(say) as stage:
            for agent in order:
                await stage.client(agent).chat.completions.create(model="any", messages=USER)
        seeds.append({f"{key[0]}{number}": seen[key] for number, key in enumerate(sorted(seen))})
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0].values())) == 3


@pytest.mark.asyncio
async def test_a_request_seed_changes_the_numbers(serving: Any) -> None:
    seen: list[int] = []

    def say(prompt: str, request: Request) -> str:
        seen.append(request.sampling.seed)
        return "yes"

    for seed in (1, 1, 2):
        async with serving(say) as stage:
            await stage.client().chat.completions.create(model="any", messages=USER, seed=seed)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.asyncio
async def test_ids_repeat_with_the_episode(serving: Any) -> None:
    ids = []
    for _ in range(2):
        async with serving(CALL) as stage:
            answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD])
            ids.append((answer.id, answer.choices[0].message.tool_calls[0].id))
    assert ids[0] == ids[1]


@pytest.mark.asyncio
async def test_a_full_context_is_refused_by_its_name(serving: Any) -> None:
    async with serving("yes", max_model_len=30) as stage:
        with pytest.raises(openai.BadRequestError) as caught:
            await stage.client().chat.completions.create(model="any", messages=[{"role": "user", "content": "word " * 40}])
    assert caught.value.code == "context_length_exceeded"
    assert stage.recorder.failures.reason == "context_full"
    assert stage.recorder.calls == ()


@pytest.mark.asyncio
async def test_running_into_the_end_of_the_context_is_its_own_finish(serving: Any) -> None:
    async with serving("word " * 100, max_model_len=60) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER)
    call = stage.recorder.calls[0]
    assert answer.choices[0].finish_reason == "length"
    assert call.finish_reason == "context"
    assert len(call.prompt_ids) + len(call.output_ids) == 60


@pytest.mark.asyncio
async def test_a_call_over_max_steps_is_refused_with_the_key_to_raise_and_not_sent_again(serving: Any) -> None:
    async with serving("yes", max_steps=2) as stage:
        client = stage.client(max_retries=2)
        await client.chat.completions.create(model="any", messages=USER, n=2)
        with pytest.raises(openai.PermissionDeniedError, match=r"'agent'.*rollout\.multi_turn\.max_steps = 2.*raise this key"):
            await client.chat.completions.create(model="any", messages=USER)
    assert len(stage.recorder.calls) == 2
    assert stage.recorder.failures.reason == "max_steps"


@pytest.mark.asyncio
async def test_a_closed_episode_answers_401(serving: Any) -> None:
    async with serving("yes") as stage:
        client = stage.client()
        await stage.recorder.close()
        with pytest.raises(openai.AuthenticationError):
            await client.chat.completions.create(model="any", messages=USER)


@pytest.mark.asyncio
async def test_a_client_that_is_closed_leaves_the_others_open(serving: Any) -> None:
    async with serving("yes") as stage:
        async with stage.client() as first:
            await first.chat.completions.create(model="any", messages=USER)
        answer = await stage.client().chat.completions.create(model="any", messages=USER)
    assert answer.choices[0].message.content == "yes"


@pytest.mark.asyncio
async def test_a_client_in_another_event_loop_uses_the_socket(serving: Any) -> None:
    async with serving("yes") as stage:
        client = stage.client()

        async def ask() -> Any:
            return await client.chat.completions.create(model="any", messages=USER)

        answer = await asyncio.to_thread(asyncio.run, ask())
    assert answer.choices[0].message.content == "yes"


@pytest.mark.asyncio
async def test_a_tuner_travels_to_other_processes(serving: Any) -> None:
    async with serving("yes") as stage:
        tuner = pickle.loads(pickle.dumps(stage.recorder.tuner))
        client = tuner.as_raw_openai_sdk_client("scout", "planner")
        await client.chat.completions.create(model="any", messages=USER)
        await client.close()
    assert tuner == stage.recorder.tuner.remote()
    assert (stage.recorder.calls[0].agent, stage.recorder.calls[0].target_tag) == ("scout", "planner")


@pytest.mark.asyncio
async def test_the_debug_model_stands_in_for_agents_that_are_not_trained(serving: Any) -> None:
    async with serving("yes", trainable_targets=["planner"]) as stage:
        assert stage.recorder.tuner.as_agentscope_model("critic", debug_model="other") == "other"
        assert stage.recorder.tuner.remote().as_agentscope_model("critic", debug_model="other") == "other"


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_a_client_that_leaves_cancels_the_generation(serving: Any, way: str) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        client = getattr(stage, way)()
        task = asyncio.create_task(client.chat.completions.create(model="any", messages=USER))
        await until_so(lambda: engine.under_way)
        task.cancel()
        await until_so(lambda: not engine.under_way)
        await until_so(lambda: stage.recorder.calls)
        call = stage.recorder.calls[0]
    assert (call.finish_reason, call.untrained, call.output_ids.tolist()) == ("abort", "aborted", [70, 71])


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["client", "socket_client"])
async def test_a_client_that_leaves_a_stream_cancels_the_generation(serving: Any, way: str) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        stream = await getattr(stage, way)().chat.completions.create(model="any", messages=USER, stream=True)
        await anext(aiter(stream))
        assert engine.under_way
        await stream.close()
        await until_so(lambda: not engine.under_way)
        await until_so(lambda: stage.recorder.calls)


@pytest.mark.asyncio
async def test_closing_the_episode_cancels_and_records(serving: Any) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        asked = [
            asyncio.create_task(stage.client().chat.completions.create(model="any", messages=USER, stream=stream))
            for stream in (False, True)
        ]
        await until_so(lambda: engine.under_way == 2)
        await stage.recorder.close()
        found = await asyncio.gather(*asked, return_exceptions=True)
    assert engine.under_way == 0
    assert [call.finish_reason for call in stage.recorder.calls] == ["abort", "abort"]
    assert [call.weights[0].version for call in stage.recorder.calls] == [3, 3]
    assert isinstance(found[0], openai.APIStatusError)
    assert len(engine.released) == 1


@pytest.mark.asyncio
async def test_an_engine_error_is_503_and_recorded(serving: Any) -> None:
    async with serving(engine=Slow(RuntimeError("out of memory"), words=0)) as stage:
        for stream in (False, True):
            with pytest.raises(openai.InternalServerError, match="out of memory") as caught:
                await stage.client().chat.completions.create(model="any", messages=USER, stream=stream)
            assert caught.value.status_code == 503
            assert caught.value.response.headers["retry-after"] == "1"
    assert [call.untrained for call in stage.recorder.calls] == ["engine_error", "engine_error"]


@pytest.mark.asyncio
async def test_an_engine_error_in_the_middle_of_a_stream_reaches_the_client(serving: Any) -> None:
    async with serving(engine=Slow(RuntimeError("out of memory"))) as stage:
        stream = await stage.client().chat.completions.create(model="any", messages=USER, stream=True)
        with pytest.raises(openai.APIError, match="out of memory"):
            async for _ in stream:
                pass


@pytest.mark.asyncio
async def test_a_call_that_takes_too_long_is_a_timeout_and_is_not_asked_again(serving: Any) -> None:
    async with serving(engine=Slow(), llm_timeout_s=0.05) as stage:
        with pytest.raises(openai.InternalServerError) as caught:
            await stage.client(max_retries=2).chat.completions.create(model="any", messages=USER)
    assert caught.value.status_code == 504
    # A client that asked again would get another answer, and replace a long one by a shorter one.
    assert [call.untrained for call in stage.recorder.calls] == ["timeout"]


@pytest.mark.asyncio
async def test_the_clients_own_timeout_holds_without_a_socket(serving: Any) -> None:
    engine = Slow()
    async with serving(engine=engine) as stage:
        with pytest.raises(openai.APITimeoutError):
            await stage.client(timeout=0.05).chat.completions.create(model="any", messages=USER)
        assert engine.under_way == 0


@pytest.mark.asyncio
async def test_a_stream_arrives_part_by_part(serving: Any) -> None:
    async with serving(engine=Slow(words=3)) as stage:
        stream = await stage.client().chat.completions.create(model="any", messages=USER, stream=True)
        parts = aiter(stream)
        said = [(await anext(parts)).choices[0].delta.content for _ in range(4)]
        await stream.close()
    assert said[0] == ""
    assert all(said[1:])


@pytest.mark.asyncio
async def test_arguments_written_anew_still_continue_the_stream(serving: Any) -> None:
    async with serving([CALL, "3"]) as stage:
        answer = await stage.client().chat.completions.create(model="any", messages=USER, tools=[ADD])
        call = answer.choices[0].message.tool_calls[0]
        anew = json.dumps(json.loads(call.function.arguments), sort_keys=True, indent=1)
        again = {"id": call.id, "type": "function", "function": {"name": "add", "arguments": anew}}
        back = {"role": "assistant", "name": "friday", "content": [], "tool_calls": [again]}
        await stage.client().chat.completions.create(
            model="any", messages=[*USER, back, {"role": "tool", "tool_call_id": call.id, "content": "3"}], tools=[ADD]
        )
    assert stage.recorder.calls[1].parent == 0
    assert stage.recorder.calls[1].kept == len(stream_ids(stage.recorder.calls, 0))
