"""A framework that drops the reasoning of answers is named where the template would show it, and not where that drops it too."""

from __future__ import annotations

from typing import Any

import pytest
from official_templates import official_renderer

from astuner.model.rendering import TemplateRenderer

USER = {"role": "user", "content": "what is 1 and 2?"}
MORE = {"role": "user", "content": "and 3?"}
ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
CALL = "<think>\nhm, one\n</think>\n\n" + '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>'
QUICK = "<think>\nhm, one\n</think>\n\nthree"
CALLS = [{"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}]
RESULT = {"role": "tool", "tool_call_id": "c1", "content": "3"}
NOTICE = "agent: its framework drops the reasoning of answers before it sends the conversation back. The template would show it"


@pytest.fixture
def renderer(request: pytest.FixtureRequest) -> TemplateRenderer:
    return official_renderer(request.param)


def answer(content: str | None, **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **fields}


async def play(serving: Any, said: str, *after: dict[str, Any], **changes: Any) -> list[str]:
    async with serving([said, "ok"], **changes) as stage:
        client = stage.client()
        await client.chat.completions.create(model="any", messages=[USER], tools=[ADD])
        await client.chat.completions.create(model="any", messages=[USER, *after], tools=[ADD])
    return [text for text in stage.recorder.notices if "its framework" in text]


@pytest.mark.asyncio
@pytest.mark.parametrize("renderer", ["qwen3"], indirect=True)
async def test_reasoning_in_front_of_a_call_is_missed_by_a_template_that_shows_it(serving: Any) -> None:
    [notice] = await play(serving, CALL, answer(None, tool_calls=CALLS), RESULT)
    assert notice.startswith(NOTICE)


@pytest.mark.asyncio
@pytest.mark.parametrize("renderer", ["qwen3"], indirect=True)
async def test_a_template_that_drops_old_reasoning_misses_none(serving: Any) -> None:
    assert await play(serving, QUICK, answer("three"), MORE) == []
    assert await play(serving, CALL, answer(None, tool_calls=CALLS), RESULT, MORE) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("renderer", ["qwen3"], indirect=True)
@pytest.mark.parametrize("kept", [{"reasoning_content": "hm, one"}, {"reasoning": "hm, one"}])
async def test_reasoning_that_is_sent_back_is_not_missed(serving: Any, kept: dict[str, str]) -> None:
    assert await play(serving, CALL, answer(None, tool_calls=CALLS, **kept), RESULT) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("renderer", ["qwen2_5"], indirect=True)
async def test_an_answer_without_separate_reasoning_drops_none(serving: Any) -> None:
    assert await play(serving, QUICK, answer(QUICK), MORE) == []


@pytest.mark.asyncio
@pytest.mark.parametrize("renderer", ["qwen3"], indirect=True)
async def test_what_a_context_tracker_leaves_out_is_no_change_of_a_framework(serving: Any) -> None:
    assert await play(serving, CALL, answer(None, tool_calls=CALLS), RESULT, names_changes=False) == []


@pytest.mark.parametrize(("renderer", "shown"), [("qwen3", (True, False)), ("qwen2_5", (False, False))], indirect=["renderer"])
def test_each_kind_of_conversation_is_tried(renderer: TemplateRenderer, shown: tuple[bool, bool]) -> None:
    called = answer("", tool_calls=CALLS)
    for _ in range(2):
        assert (
            renderer.shows_reasoning(called, [RESULT], {}),
            renderer.shows_reasoning(called, [RESULT, MORE], {}),
        ) == shown
