"""A calculator agent on the Anthropic SDK, streaming: its own loop of model calls and tool calls over the Messages API."""

from __future__ import annotations

import math

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SCHEMA = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
CALCULATOR = {"name": "calculator", "input_schema": SCHEMA}


def calculator(expression: str) -> str:
    """Multiply the whole numbers of an expression such as 12*34."""
    try:
        return str(math.prod(map(int, expression.split("*"))))
    except ValueError as error:
        return f"error: {error}"


class CalculatorAgent(Workflow):
    """Calls the model until it answers without the tool."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question in at most three calls."""
        client = tuner.as_raw_anthropic_sdk_client()
        messages = [{"role": "user", "content": workflow_task.task.main_query}]
        asked = {"model": "tuned", "max_tokens": 512, "system": "Use your tools.", "tools": [CALCULATOR]}
        for _ in range(3):
            async with client.messages.stream(**asked, messages=messages) as stream:
                reply = await stream.get_final_message()
            messages.append({"role": "assistant", "content": reply.content})
            calls = [block for block in reply.content if block.type == "tool_use"]
            if not calls:
                text = "".join(block.text for block in reply.content if block.type == "text")
                return WorkflowOutput(metadata={"final_answer": text})
            results = [(call.id, calculator(str(call.input.get("expression")))) for call in calls]
            content = [{"type": "tool_result", "tool_use_id": name, "content": text} for name, text in results]
            messages.append({"role": "user", "content": content})
        return WorkflowOutput(metadata={"final_answer": ""})
