"""A math agent on the OpenAI SDK: thinks aloud, may use a calculator, answers in a box."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM = "Solve the problem step by step. You may call the calculator. Put the final number in \\boxed{}."
CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Evaluates an arithmetic expression.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    },
}
MAX_TURNS = 6
OPERATORS: dict[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class MathAgent(Workflow):
    """Answers one question per episode; the judge compares `final_answer` with the task's `answer`."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Talk to the model until it answers without calling the tool."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": workflow_task.task.main_query}]
        calls = 0
        text = ""
        for _ in range(MAX_TURNS):
            response = await client.chat.completions.create(model="astuner", messages=messages, tools=[CALCULATOR])
            message = response.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            text = message.content or ""
            if not message.tool_calls:
                break
            for call in message.tool_calls:
                calls += 1
                messages.append({"role": "tool", "tool_call_id": call.id, "content": calculate(call.function.arguments)})
        return WorkflowOutput(metadata={"final_answer": text}, log_metrics={"tool_calls": calls})


def calculate(arguments: str) -> str:
    """Return the value of the expression in a tool call's JSON arguments, or an error text."""
    try:
        value = _value(ast.parse(json.loads(arguments)["expression"], mode="eval").body)
    except (ValueError, KeyError, TypeError, SyntaxError, ZeroDivisionError, OverflowError) as error:
        return f"error: {error}"
    return f"{value:g}"


def _value(node: ast.AST) -> float:
    match node:
        case ast.Constant(value=int() | float() as number):
            return float(number)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left), _value(right))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case _:
            raise ValueError("only numbers and + - * / are understood")
