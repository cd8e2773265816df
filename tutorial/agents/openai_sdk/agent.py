"""A calculator agent on the OpenAI SDK: its own loop of model calls and tool calls."""

from __future__ import annotations

import json
import math

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
CALCULATOR = {"type": "function", "function": {"name": "calculator", "parameters": PARAMETERS}}


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
        client = tuner.as_raw_openai_sdk_client()
        query = workflow_task.task.main_query
        messages = [{"role": "system", "content": "Use your tools."}, {"role": "user", "content": query}]
        for _ in range(3):
            completion = await client.chat.completions.create(model="tuned", messages=messages, tools=[CALCULATOR])
            reply = completion.choices[0].message
            messages.append(reply.model_dump(exclude_none=True))
            if not reply.tool_calls:
                return WorkflowOutput(metadata={"final_answer": reply.content})
            for call in reply.tool_calls:
                result = calculator(str(json.loads(call.function.arguments).get("expression")))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return WorkflowOutput(metadata={"final_answer": ""})
