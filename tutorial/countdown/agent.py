"""The agent: finds the sign between two numbers. Its one tool says whether a sign is right."""

from __future__ import annotations

import json
from typing import Any

from numbers_game import SIGNS, is_right

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM_PROMPT = "Which sign?"
CHECK = {
    "type": "function",
    "function": {
        "name": "check",
        "description": "Say whether a sign makes the number.",
        "parameters": {"type": "object", "properties": {"sign": {"enum": list(SIGNS)}}, "required": ["sign"]},
    },
}
MOST_CALLS = 5


class Countdown(Workflow):
    """Checks until it answers, with the OpenAI SDK."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one round."""
        client, row = tuner.as_raw_openai_sdk_client(), workflow_task.task.metadata
        messages: list[Any] = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        checks = 0
        for _ in range(MOST_CALLS):
            completion = await client.chat.completions.create(model="tuned", messages=messages, tools=[CHECK])
            message = completion.choices[0].message
            if not message.tool_calls:
                return WorkflowOutput(metadata={"answer": (message.content or "").strip(), "checks": checks})
            messages.append(message)
            for call in message.tool_calls:
                checks += 1
                found = {"role": "tool", "tool_call_id": call.id, "content": check(call.function.arguments, row)}
                messages.append(found)
        return WorkflowOutput(metadata={"answer": "", "checks": checks})


def check(arguments: str, row: dict[str, Any]) -> str:
    """Return what the tool says of a sign: its arguments are text that the model wrote, whatever it is."""
    try:
        sign = str(json.loads(arguments)["sign"])
    except (ValueError, KeyError, TypeError):
        return "error"
    return f"yes: {sign}" if is_right(sign, row) else "no"
