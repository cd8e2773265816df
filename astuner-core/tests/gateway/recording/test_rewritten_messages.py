from __future__ import annotations

import pytest

USER = {"role": "user", "content": "2+2?"}


def shout(agent, messages):
    """Put the agent's name and capital letters into system messages."""
    return tuple({**one, "content": f"{agent}: {one['content'].upper()}"} if one["role"] == "system" else one for one in messages)


async def ask(stage, messages, agent="agent", target=None, **more):
    client = stage.client(agent, target)
    answer = await client.chat.completions.create(model="astuner", messages=messages, **more)
    return answer.choices[0].message.content


@pytest.mark.asyncio
async def test_the_model_sees_and_the_record_holds_what_the_rewriter_returns(serving):
    prompts = []

    def says(prompt, request):
        prompts.append(prompt)
        return "4"

    async with serving(says, rewriter=shout) as stage:
        await ask(stage, [{"role": "system", "content": "be brief"}, USER])
    assert "agent: BE BRIEF" in prompts[0]
    assert "be brief" not in prompts[0]
    assert [one["content"] for one in stage.recorder.calls[0].messages] == ["agent: BE BRIEF", "2+2?"]


@pytest.mark.asyncio
async def test_the_next_turn_of_a_rewritten_conversation_continues_it(serving):
    opening = [{"role": "system", "content": "be brief"}, USER]
    async with serving("4", rewriter=shout) as stage:
        said = await ask(stage, opening)
        await ask(stage, [*opening, {"role": "assistant", "content": said}, {"role": "user", "content": "sure?"}])
    first, second = stage.recorder.calls
    assert second.parent == first.index
    assert [one["content"] for one in second.messages] == ["sure?"]


@pytest.mark.asyncio
async def test_an_agent_that_is_not_trained_is_asked_as_it_asks(serving):
    async with serving("4", rewriter=shout, trainable_targets=("agent",)) as stage:
        await ask(stage, [{"role": "system", "content": "be brief"}, USER], agent="judge")
    assert stage.recorder.calls[0].messages[0]["content"] == "be brief"
