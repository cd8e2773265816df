"""The quickstart's calculator agent without any SDK. Copied beside a project's YAML by the tests."""

from __future__ import annotations

import httpx
from agent import CALCULATOR, SYSTEM_PROMPT, calculate

from astuner import Workflow, WorkflowOutput


class RawHttpAgent(Workflow):
    """Knows nothing but a base URL and a key."""

    async def execute(self, workflow_task, tuner):
        api = tuner.as_oai_baseurl_apikey()
        messages = [{"role": "system", "content": SYSTEM_PROMPT}, {"role": "user", "content": workflow_task.task.main_query}]
        text = ""
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {api.api_key}"}, trust_env=False) as client:
            for _ in range(3):
                body = {"model": api.model, "messages": messages, "tools": [CALCULATOR]}
                answer = (await client.post(f"{api.base_url}/chat/completions", json=body, timeout=60)).json()
                message = answer["choices"][0]["message"]
                messages.append(message)
                text = message.get("content") or ""
                if not message.get("tool_calls"):
                    break
                for call in message["tool_calls"]:
                    result = calculate(call["function"]["arguments"])
                    messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        return WorkflowOutput(metadata={"final_answer": text})
