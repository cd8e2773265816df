"""A calculator agent for two uses: deployed, it answers users and reports its spans; in a run, it is tuned."""

from __future__ import annotations

import ast
import json
import operator
from collections.abc import Callable
from typing import Any

from spans import Recording

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM = "Use your tools."
MAX_CALLS = 3
CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Work out an expression of whole numbers with +, - and *.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    },
}
OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


async def converse(client: Any, model: str, messages: list[dict[str, Any]], recording: Recording) -> str:
    """Call the model until it answers without calling the tool."""
    for _ in range(MAX_CALLS):
        with recording.span(f"chat {model}", "chat", **{"gen_ai.request.model": model}) as span:
            span.input(messages)
            completion = await client.chat.completions.create(model=model, messages=messages, tools=[CALCULATOR])
            reply = completion.choices[0].message.model_dump(exclude_none=True)
            span.output(reply)
        messages.append(reply)
        if not reply.get("tool_calls"):
            return reply.get("content") or ""
        for call in reply["tool_calls"]:
            with recording.span("execute_tool calculator", "execute_tool", **{"gen_ai.tool.name": "calculator"}):
                result = calculate(call["function"]["arguments"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    return ""


async def answer(client: Any, model: str, question: str, recording: Recording) -> str:
    """Answer one question of a user. This function is deployed."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    with recording.span("invoke_agent calculator", "invoke_agent", **{"gen_ai.agent.name": "calculator"}) as span:
        span.input([{"role": "user", "content": question}])
        text = await converse(client, model, messages, recording)
        span.output({"role": "assistant", "content": text})
    return text


class CalculatorAgent(Workflow):
    """The same agent in a run; `init_messages` hold the recorded system prompt and any earlier turns."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one recorded question."""
        task = workflow_task.task
        messages = [*map(dict, task.init_messages), {"role": "user", "content": task.main_query}]
        text = await converse(tuner.as_raw_openai_sdk_client(), "tuned", messages, Recording())
        return WorkflowOutput(metadata={"final_answer": text})


def calculate(arguments: str) -> str:
    """Return the value of the expression in a tool call's JSON arguments, or an error text."""
    try:
        return str(_value(ast.parse(str(json.loads(arguments)["expression"]).strip(), mode="eval").body))
    except (KeyError, TypeError, ValueError, SyntaxError, RecursionError) as error:
        return f"error: {error}"


def _value(node: ast.expr) -> int:
    match node:
        case ast.Constant(value=number) if type(number) is int:
            return number
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
            return OPERATORS[type(op)](_value(left), _value(right))
    raise ValueError("only whole numbers, +, - and * are known")
