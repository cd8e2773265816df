"""Models whose templates know no reasoning, through the APIs of this package: what the agent reads."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from official_templates import official_renderer

from astuner.model.rendering import TemplateRenderer

OPEN_R1 = re.compile(r"^<think>\n.*?\n</think>\n<answer>\n.*?\n</answer>$", re.DOTALL)
"""The format that Open-R1's reward asks for."""
PERFECT = "<think>\n57 times 83 is 4731\n</think>\n<answer>\n4731\n</answer>"
USER = {"role": "user", "content": "57*83?"}


@pytest.fixture(params=["qwen2_5", "llama3", "llama3_1", "gemma3", "phi3", "qwen3_instruct_2507"])
def renderer(request: pytest.FixtureRequest) -> TemplateRenderer:
    return official_renderer(request.param)


@pytest.mark.asyncio
async def test_an_answer_matches_the_format_in_the_responses_api(serving: Any) -> None:
    async with serving(PERFECT) as stage:
        answer = await stage.client().responses.create(model="any", input="57*83?")
    assert [item.type for item in answer.output] == ["message"]
    assert OPEN_R1.match(answer.output_text)


@pytest.mark.asyncio
async def test_an_answer_matches_the_format_in_the_messages_api(serving: Any) -> None:
    async with serving(PERFECT) as stage:
        api = stage.recorder.tuner.as_oai_baseurl_apikey("scout")
        async with httpx.AsyncClient(base_url=api.base_url, headers={"x-api-key": api.api_key}) as client:
            answer = await client.post("/messages", json={"model": "any", "max_tokens": 200, "messages": [USER]})
    assert answer.json()["content"] == [{"type": "text", "text": PERFECT}]
    assert OPEN_R1.match(PERFECT)
