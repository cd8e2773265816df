"""Structured output of a framework: what the engine samples freely is trained, and the framework checks it and asks again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel
from tutorials import kept_whole

DECISION = '<tool_call>\n{"name": "generate_response", "arguments": {"vote": "player 3"}}\n</tool_call>'
WRONG = '<tool_call>\n{"name": "generate_response", "arguments": {"votes": 3}}\n</tool_call>'


class Vote(BaseModel):
    vote: str


@pytest.mark.agentscope1
@pytest.mark.asyncio
async def test_every_token_of_a_structured_answer_of_agentscope_1_is_trained(playing: Callable[..., Any]):
    from agentscope.agent import ReActAgent
    from agentscope.formatter import OpenAIChatFormatter
    from agentscope.message import Msg

    async with playing((WRONG, DECISION, "I vote for player 3.")) as stage:
        model = stage.recorder.tuner.as_agentscope_model()
        agent = ReActAgent(name="villager", sys_prompt="Vote.", model=model, formatter=OpenAIChatFormatter())
        agent.set_console_output_enabled(False)
        reply = await agent(Msg("user", "Who is the wolf?", "user"), structured_model=Vote)
        calls = stage.recorder.calls
    assert reply.metadata["vote"] == "player 3"
    assert [call.untrained for call in calls] == [None, None, None]
    assert kept_whole(calls) == [True, True]
    assert len(stage.recorder.notices) == 1
    assert "sampled freely and trained" in stage.recorder.notices[0]


@pytest.mark.agentscope1
@pytest.mark.asyncio
async def test_a_structured_answer_of_agentscope_1s_model_is_trained(playing: Callable[..., Any]):
    async with playing(('{"vote": "player 3"}',)) as stage:
        model = stage.recorder.tuner.as_agentscope_model()
        answers = await model([{"role": "user", "content": "Who is the wolf?"}], structured_model=Vote)
        metadata = [answer.metadata async for answer in answers][-1]
        calls = stage.recorder.calls
    assert metadata == {"vote": "player 3"}
    assert [call.untrained for call in calls] == [None]


@pytest.mark.asyncio
async def test_a_parsed_answer_of_openais_sdk_is_trained(playing: Callable[..., Any]):
    async with playing(('{"vote": "player 3"}',)) as stage:
        client = stage.recorder.tuner.as_raw_openai_sdk_client()
        asked = [{"role": "user", "content": "Who is the wolf?"}]
        answer = await client.chat.completions.parse(model="any", messages=asked, response_format=Vote)
        calls = stage.recorder.calls
    assert answer.choices[0].message.parsed == Vote(vote="player 3")
    assert [call.untrained for call in calls] == [None]
