"""The agent that is tuned: answers a question with the help of a calculator."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable
from pathlib import Path

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM_PROMPT = Path(__file__).with_name("system_prompt.txt").read_text(encoding="utf-8").strip()

MAX_CALLS = 3
"""Model calls per question: one for the tool, one for the answer, one to spare."""

CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Work out an expression of whole numbers with +, - and *.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}

OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


class CalculatorAgent(Workflow):
    """Calls the model, runs the tools that it asks for, and ends with its first reply without a tool call."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        answer, tool_calls = "", 0
        for _ in range(MAX_CALLS):
            completion = await client.chat.completions.create(model="tuned", messages=messages, tools=[CALCULATOR])
            reply = completion.choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                answer = reply.content or ""
                break
            for call in reply.tool_calls:
                tool_calls += 1
                result = calculate(call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return WorkflowOutput(metadata={"final_answer": answer}, log_metrics={"tool_calls": tool_calls})


def calculate(arguments: str) -> str:
    """Return the value of the expression in a tool call's JSON arguments, or what is wrong with it: the model reads both."""
    try:
        return str(value(ast.parse(json.loads(arguments)["expression"], mode="eval").body))
    except (KeyError, TypeError, ValueError, SyntaxError, RecursionError) as error:
        return f"error: {error}"


def value(node: ast.expr) -> int:
    """Work out a parsed expression; nothing in it is ever executed."""
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](value(left), value(right))
    raise ValueError("only whole numbers, +, - and * are known")
