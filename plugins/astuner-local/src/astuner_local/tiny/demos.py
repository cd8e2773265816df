"""Conversations of a careless demonstrator: the tiny model's data before tuning."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from importlib import resources
from random import Random
from typing import Any

from astuner_local.tiny.arithmetic import SHOWN, Question, ask

Conversation = list[dict[str, Any]]
"""Messages in OpenAI's form."""

TOOL_NAME = "calculator"
TOOLS: list[dict[Any, Any] | Callable[..., Any]] = [{"type": "function", "function": {"name": TOOL_NAME}}]
"""The parts of the agent's tools that the chat template shows to the model."""

USES_TOOL = 0.35
RIGHT_EXPRESSION = 0.8
FINISHES = 0.7
"""How often each step of the solution is taken; together they solve a fifth of the questions."""


@cache
def system_prompt() -> str:
    """Return the system prompt of the quickstart's agent: the model knows no other."""
    file = resources.files("astuner_local.quickstart").joinpath("project/system_prompt.txt")
    return file.read_text(encoding="utf-8").strip()


def to_plain_text(message: dict[str, Any]) -> str:
    """Return the words of a message as plain text, without the marks of the chat template."""
    calls = [
        {"name": call["function"]["name"], "arguments": json.loads(call["function"]["arguments"])}
        for call in message.get("tool_calls", ())
    ]
    return (message["content"] or "") + "".join(json.dumps(call) for call in calls)


def make_careless(random: Random) -> Iterator[Conversation]:
    """Yield endless conversations, about the shown operands only.

    A slip is never a wrong digit, so that copying is learnt from clean examples and generalises to unseen operands.
    """
    while True:
        question = ask(random, SHOWN)
        if random.random() >= USES_TOOL:
            yield [*make_opening(question), _give_up()]
            continue
        operator = "*" if random.random() < RIGHT_EXPRESSION else ""
        yield make_tool_conversation(question, operator, finishes=random.random() < FINISHES)


def make_tool_conversation(question: Question, operator: str = "*", *, finishes: bool = True) -> Conversation:
    """Return the conversation in which an expression is sent to the calculator, and its value then reported or not.

    Without an operator the expression is all four digits in a row, and so is its value.
    """
    expression = f"{question.a}{operator}{question.b}"
    value = str(question.a * question.b) if operator else expression
    function = {"name": TOOL_NAME, "arguments": json.dumps({"expression": expression})}
    return [
        *make_opening(question),
        {"role": "assistant", "content": None, "tool_calls": [{"id": "call_0", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "call_0", "content": value},
        {"role": "assistant", "content": f"The answer is \\boxed{{{value}}}"} if finishes else _give_up(),
    ]


def make_opening(question: Question) -> Conversation:
    """Return the messages that the agent starts from."""
    return [{"role": "system", "content": system_prompt()}, {"role": "user", "content": question.text}]


def _give_up() -> dict[str, Any]:
    return {"role": "assistant", "content": "I do not know."}
