"""What a framework sends back of an answer, in its own words, still continues the stream of ids that was sampled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tutorials import FRAMEWORKS, kept_whole, load_tutorial

from astuner import Task, WorkflowTask

QUESTION = WorkflowTask(Task("What is 12 * 34?"))
ANSWER = "The answer is \\boxed{408}"


def call(arguments: str, name: str = "calculator") -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {arguments}}}\n</tool_call>'


SPACED = call('{"expression": "12*34"}')

FIRST_ANSWERS = {
    "one call": SPACED,
    "no spaces": '<tool_call>{"name":"calculator","arguments":{"expression":"12*34"}}</tool_call>',
    "many spaces": call('{ "expression" :\n "12*34" }'),
    "escapes": call(r'{"expression": "12*\u00e934 \"\/ 中"}'),
    "text before": f"Let me see:  é中\n\n{SPACED}",
    "two calls": "\n".join((SPACED, call('{"expression": "5*6"}'))),
    "wrong argument": call('{"wanted": [1.50, 1e3, null, true]}'),
    "more arguments": call('{"z": 1, "expression": "12*34", "a": 2}'),
    "no arguments": call("{}"),
}


@pytest.mark.parametrize("said", FIRST_ANSWERS.values(), ids=FIRST_ANSWERS)
@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.asyncio
async def test_a_call_of_a_tool_is_continued(playing: Callable[..., Any], framework: str, said: str):
    async with playing((said, ANSWER)) as stage:
        output = await load_tutorial(framework).CalculatorAgent().execute(QUESTION, stage.recorder.tuner)
        calls = stage.recorder.calls
    assert output.metadata["final_answer"] == ANSWER
    assert kept_whole(calls) == [True]


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.asyncio
async def test_three_turns_are_one_stream(playing: Callable[..., Any], framework: str):
    async with playing((SPACED, SPACED, ANSWER)) as stage:
        output = await load_tutorial(framework).CalculatorAgent().execute(QUESTION, stage.recorder.tuner)
        calls = stage.recorder.calls
    assert output.metadata["final_answer"] == ANSWER
    assert kept_whole(calls) == [True, True]
