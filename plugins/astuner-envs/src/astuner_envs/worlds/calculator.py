"""The environment `calculator`: a sum, a tool to calculate with, and a score for the right answer."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from attrs import field, frozen
from attrs.validators import and_, ge, le

from astuner.contract.protocols import EnvironmentTraits
from astuner.contract.schema import Message, Split, Task, WorkflowTask
from astuner_envs.arithmetic import NotArithmetic, evaluate
from astuner_envs.listing import NumberedTasks, draw_for_split, list_numbered, locate_task, make_random
from astuner_envs.message_answers import extract_answer

NAME = "calculator"
TOOL: Mapping[str, Any] = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "Evaluate an arithmetic expression with + - * / and brackets.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}


class Calculator:
    """An answer without a tool call is the last."""

    traits = EnvironmentTraits(offers_tools=True, has_sparse_score=True)

    @frozen(kw_only=True)
    class Options(NumberedTasks):
        """Options of the environment `calculator`."""

        terms: int = field(default=3, validator=and_(ge(2), le(10)))
        """How many numbers a sum has."""
        largest: int = field(default=99, validator=ge(3))
        """The largest of them."""
        calls: int = field(default=8, validator=ge(1))
        """How many answers may call the tool."""

    def __init__(self, workflow_task: WorkflowTask, options: Options | None = None) -> None:
        self._task_id, self._options = workflow_task.task.task_id, options or self.Options()
        self.tools: Sequence[Mapping[str, Any]] = (TOOL,)
        self._sum, self._calls, self._score = "", 0, 0.0

    @classmethod
    def list_tasks(cls, options: Options, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split."""
        return list_numbered(NAME, options, split)

    async def reset(self) -> Sequence[Message]:
        """Return the sum."""
        self._sum = make_sum(self._task_id, self._options)
        rules = "Use the tool `calculate` where it helps. Give the final answer as one number in \\boxed{…}."
        return [{"role": "system", "content": rules}, {"role": "user", "content": f"What is {self._sum}?"}]

    async def step(self, action: Message) -> tuple[Sequence[Message], float, bool, Mapping[str, Any]]:
        """Answer the calls of the tool, or take the answer."""
        if not self._sum:
            raise RuntimeError("step comes after reset")
        calls = action.get("tool_calls") or []
        self._calls += bool(calls)
        if calls and self._calls <= self._options.calls:
            return [_answer(call) for call in calls], 0.0, False, {"tool_calls": len(calls)}
        self._score = float(not calls and _is_same(extract_answer(action), self._sum))
        return [], self._score, True, {"is_success": self._score == 1.0, "tool_calls": len(calls)}

    async def evaluate(self, sparse: bool = False) -> float:
        """Return 1 for the right answer, else 0."""
        return self._score

    async def close(self) -> None:
        """Nothing to release."""


def make_sum(task_id: str, options: Calculator.Options) -> str:
    """Make the sum with this id."""
    split, number = locate_task(task_id, options)
    draw = make_random(f"{NAME}/{options.terms}/{options.largest}", options, split, number)
    return draw_for_split(NAME, split, lambda: _draw_sum(draw, options), str)


def _draw_sum(draw: random.Random, options: Calculator.Options) -> str:
    terms = [str(draw.randint(2, options.largest)) for _ in range(options.terms)]
    return terms[0] + "".join(f" {draw.choice('+-*')} {term}" for term in terms[1:])


def _answer(call: Any) -> Message:
    call = call if isinstance(call, Mapping) else {}
    function = call.get("function") or {}
    return {"role": "tool", "tool_call_id": str(call.get("id") or "call"), "content": _calculate(function)}


def _calculate(function: Mapping[str, Any]) -> str:
    if function.get("name") != "calculate":
        return f"error: there is no tool {function.get('name')!r}"
    given = function.get("arguments")
    try:
        arguments: Any = json.loads(given) if isinstance(given, str) else given
        return str(evaluate(str(arguments["expression"])))
    except NotArithmetic as error:
        return f"error: {error}"
    except (ValueError, TypeError, KeyError, RecursionError):
        return 'error: arguments are {"expression": TEXT}'


def _is_same(given: str, expected: str) -> bool:
    try:
        return evaluate(given.replace(",", "")).number == evaluate(expected).number
    except NotArithmetic:
        return False
