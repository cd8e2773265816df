"""A calculator agent without any SDK: JSON over HTTP."""

from __future__ import annotations

import json
import math

import httpx

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
    """Needs only a base URL and a key."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question in at most three calls."""
        api = tuner.as_oai_baseurl_apikey()
        query = workflow_task.task.main_query
        messages = [{"role": "system", "content": "Use your tools."}, {"role": "user", "content": query}]
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {api.api_key}"}, trust_env=False) as client:
            for _ in range(3):
                body = {"model": api.model, "messages": messages, "tools": [CALCULATOR]}
                response = await client.post(f"{api.base_url}/chat/completions", json=body, timeout=60)
                reply = response.raise_for_status().json()["choices"][0]["message"]
                messages.append(reply)
                if not reply.get("tool_calls"):
                    return WorkflowOutput(metadata={"final_answer": reply["content"] or ""})
                for call in reply["tool_calls"]:
                    result = calculator(str(json.loads(call["function"]["arguments"]).get("expression")))
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return WorkflowOutput(metadata={"final_answer": ""})
