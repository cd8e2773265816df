"""The lengths of a configuration, held at the gateway."""

from __future__ import annotations

from typing import Any

import openai
import pytest

USER = [{"role": "user", "content": "word " * 10}]
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


async def ask(stage: Any, messages: Any, **more: Any) -> Any:
    return await stage.client().chat.completions.create(model="any", messages=messages, **more)


@pytest.mark.asyncio
async def test_a_first_prompt_over_its_limit_is_refused(serving: Any) -> None:
    async with serving("yes", max_prompt_length=20) as stage:
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(stage, USER)
    assert caught.value.code == "context_length_exceeded"
    assert stage.recorder.failures.reason == "context_full"
    assert "maximum context length is 20 tokens" in str(caught.value)
    assert "raise data.max_prompt_length" in str(caught.value)


@pytest.mark.asyncio
async def test_later_turns_may_be_longer_than_the_first_prompt(serving: Any) -> None:
    async with serving("yes", max_prompt_length=60, max_response_length=500) as stage:
        first = await ask(stage, USER)
        reply = first.choices[0].message.model_dump(exclude_none=True)
        await ask(stage, [*USER, reply, {"role": "user", "content": "more " * 40}])
    assert len(stage.recorder.calls) == 2


@pytest.mark.asyncio
async def test_everything_after_the_first_prompt_has_a_limit_of_its_own(serving: Any) -> None:
    async with serving("yes", max_response_length=40) as stage:
        first = await ask(stage, USER)
        reply = first.choices[0].message.model_dump(exclude_none=True)
        with pytest.raises(openai.BadRequestError) as caught:
            await ask(stage, [*USER, reply, {"role": "user", "content": "more " * 40}])
    assert caught.value.code == "context_length_exceeded"
    taken = stage.recorder.calls[0].prompt_ids.size
    assert f"raise data.max_response_length (40, after a first prompt of {taken})" in str(caught.value)


@pytest.mark.asyncio
async def test_a_long_answer_ends_where_the_response_does(serving: Any) -> None:
    async with serving("yes " * 100, max_response_length=12) as stage:
        answer = await ask(stage, USER)
    assert answer.choices[0].finish_reason == "length"
    assert len(stage.recorder.calls[0].output_ids) == 12


@pytest.mark.asyncio
async def test_tools_can_be_taken_out_of_every_call(serving: Any) -> None:
    async with serving('<tool_call>\n{"name": "add", "arguments": {}}\n</tool_call>', disable_tools=True) as stage:
        answer = await ask(stage, USER, tools=[ADD])
    assert answer.choices[0].message.tool_calls is None
    assert stage.recorder.calls[0].tools == ()


@pytest.mark.asyncio
async def test_frozen_agents_have_the_limit_of_the_context_alone(serving: Any) -> None:
    limits = {"max_prompt_length": 20, "max_response_length": 10, "max_steps": 1, "trainable_targets": ["player"]}
    async with serving("yes", **limits) as stage:
        host = stage.client("host", "frozen")
        for _ in range(3):
            await host.chat.completions.create(model="any", messages=USER)
        with pytest.raises(openai.BadRequestError):
            await stage.client("one", "player").chat.completions.create(model="any", messages=USER)
    assert [call.agent for call in stage.recorder.calls] == ["host"] * 3


@pytest.mark.asyncio
async def test_an_agent_that_goes_on_after_a_refusal_has_recovered(serving: Any) -> None:
    async with serving("yes", max_model_len=60) as stage:
        with pytest.raises(openai.BadRequestError):
            await ask(stage, [{"role": "user", "content": "word " * 80}])
        before = stage.recorder.failures.reason
        await ask(stage, USER)
    assert (before, stage.recorder.failures.reason) == ("context_full", None)
