"""A model that thinks before it calls a tool: some frameworks send its thoughts back, and some have to be asked to."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from tutorials import FRAMEWORKS, kept_whole, load_tutorial

from astuner import Task, WorkflowTask

QUESTION = WorkflowTask(Task("What is 12 * 34?"))
ANSWER = "The answer is \\boxed{408}"
THINKS = (
    "<think>\nI should multiply.\n</think>\n\nLet me see.\n"
    '<tool_call>\n{"name": "calculator", "arguments": {"expression": "12*34"}}\n</tool_call>'
)

DROP_IT = ("agentscope1", "langgraph")


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.asyncio
async def test_a_conversation_is_continued_where_the_reasoning_is_sent_back(playing: Callable[..., Any], framework: str):
    async with playing((THINKS, ANSWER)) as stage:
        await load_tutorial(framework).CalculatorAgent().execute(QUESTION, stage.recorder.tuner)
        calls = stage.recorder.calls
    # What is not sent back the model does not see: the call that lacks it is recorded as it was asked, from the start.
    assert kept_whole(calls) == [framework not in DROP_IT]


@pytest.mark.asyncio
async def test_agentscope_2_drops_reasoning_with_the_formatter_of_openai(playing: Callable[..., Any]):
    formatter = importlib.import_module("agentscope.formatter").OpenAIChatFormatter()
    async with playing((THINKS, ANSWER)) as stage:
        tuner = SimpleNamespace(as_agentscope_model=partial(stage.recorder.tuner.as_agentscope_model, formatter=formatter))
        await load_tutorial("agentscope").CalculatorAgent().execute(QUESTION, tuner)
        calls = stage.recorder.calls
    assert kept_whole(calls) == [False]


@pytest.mark.agentscope1
@pytest.mark.asyncio
async def test_agentscope_1_sends_reasoning_back_with_the_formatter_of_deepseek(
    playing: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    tutorial = load_tutorial("agentscope1")
    monkeypatch.setattr(tutorial, "OpenAIChatFormatter", importlib.import_module("agentscope.formatter").DeepSeekChatFormatter)
    async with playing((THINKS, ANSWER)) as stage:
        await tutorial.CalculatorAgent().execute(QUESTION, stage.recorder.tuner)
        calls = stage.recorder.calls
    assert kept_whole(calls) == [True]


@pytest.mark.asyncio
async def test_langchain_sends_reasoning_back_over_the_responses_api(
    playing: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    tutorial = load_tutorial("langgraph")
    monkeypatch.setattr(tutorial, "ChatOpenAI", partial(tutorial.ChatOpenAI, use_responses_api=True))
    async with playing((THINKS, ANSWER)) as stage:
        await tutorial.CalculatorAgent().execute(QUESTION, stage.recorder.tuner)
        calls = stage.recorder.calls
    assert kept_whole(calls) == [True]
