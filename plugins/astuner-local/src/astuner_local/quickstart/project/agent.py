"""The agent: answers a question with the help of a calculator. Change it, or put your own in its place."""

from __future__ import annotations

import ast
import json
import operator
from pathlib import Path

from astuner import Workflow, WorkflowOutput

SYSTEM_PROMPT = Path(__file__).with_name("system_prompt.txt").read_text(encoding="utf-8").strip()
MAX_TURNS = 4
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "calculator",
            "description": "Evaluates an arithmetic expression.",
            "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
        },
    }
]
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


class CalculatorAgent(Workflow):
    """One episode: the question, as many tool calls as the model makes, its last words."""

    async def execute(self, workflow_task, tuner):
        client = tuner.as_raw_openai_sdk_client()  # an openai.AsyncOpenAI; the model under training answers
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        tool_calls = 0
        answer = ""
        for _ in range(MAX_TURNS):
            response = await client.chat.completions.create(model="astuner", messages=messages, tools=TOOLS)
            message = response.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            answer = message.content or ""
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                tool_calls += 1
                result = calculate(call.function.arguments)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        # What the judge needs goes into `metadata`; numbers in `log_metrics` are averaged and logged.
        return WorkflowOutput(metadata={"final_answer": answer}, log_metrics={"tool_calls": tool_calls})


def calculate(arguments):
    """Return the value of the expression in a tool call's JSON arguments, or what is wrong with it."""
    try:
        return str(_value(ast.parse(json.loads(arguments)["expression"], mode="eval").body))
    except (ValueError, KeyError, TypeError, SyntaxError, OverflowError) as error:
        return f"error: {error}"


def _value(node):
    match node:
        case ast.Constant(value=int() as number):
            return number
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left), _value(right))
    raise ValueError("only whole numbers and + - * are understood")
