"""The agent: reads a support ticket, and sends it to a queue with its one tool."""

from __future__ import annotations

import json

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM_PROMPT = "Send the ticket to the right queue."
ROUTE = {
    "type": "function",
    "function": {
        "name": "route",
        "parameters": {"type": "object", "properties": {"queue": {"type": "string"}}, "required": ["queue"]},
    },
}


class Router(Workflow):
    """Calls the model once, with the OpenAI SDK."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Route one ticket."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        completion = await client.chat.completions.create(model="tuned", messages=messages, tools=[ROUTE])
        calls = completion.choices[0].message.tool_calls
        return WorkflowOutput(metadata={"queue": read_queue(calls[0].function.arguments) if calls else None})


def read_queue(arguments: str) -> object:
    """Return the queue that a tool call names, or None: a model may write anything there."""
    try:
        return json.loads(arguments)["queue"]
    except (ValueError, TypeError, KeyError):
        return None
