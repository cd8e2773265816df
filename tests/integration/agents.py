"""The quickstart's calculator agent, written for other frameworks. Copied beside a project's YAML by the tests."""

from __future__ import annotations

import json

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


class AgentScopeAgent(Workflow):
    """AgentScope 2.x's own agent, streaming as it does by default, with its own tool loop."""

    async def execute(self, workflow_task, tuner):
        from agentscope.agent import Agent, InjectionConfig, ReActConfig
        from agentscope.message import UserMsg
        from agentscope.tool import FunctionTool, Toolkit

        def calculator(expression: str) -> str:
            """Evaluate an arithmetic expression."""
            return calculate(json.dumps({"expression": expression}))

        agent = Agent(
            name="calculator",
            system_prompt=SYSTEM_PROMPT,
            model=tuner.as_agentscope_model(),
            toolkit=Toolkit(tools=[FunctionTool(calculator, is_read_only=True)]),
            react_config=ReActConfig(max_iters=3),
            injection_config=InjectionConfig(inject_runtime_state=False),
        )
        reply = await agent.reply(UserMsg(name="user", content=workflow_task.task.main_query))
        return WorkflowOutput(metadata={"final_answer": reply.get_text_content() or ""})
