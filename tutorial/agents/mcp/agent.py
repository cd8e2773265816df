"""A calculator agent whose tools come from an MCP server, over stdio or streamable HTTP."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SERVER = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("server.py"))])


class CalculatorAgent(Workflow):
    """Uses the server at `CALCULATOR_URL`, or else starts one for each episode."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question in at most three calls."""
        url = os.environ.get("CALCULATOR_URL")
        # The task that enters these contexts leaves them, in any case: they hold cancel scopes of this task.
        transport = streamable_http_client(url) if url else stdio_client(SERVER)
        async with transport as (reader, writer), ClientSession(reader, writer) as session:
            await session.initialize()
            return await answer(workflow_task.task.main_query, session, tuner)


async def answer(query: str, session: ClientSession, tuner: Tuner) -> WorkflowOutput:
    """Play the episode with the tools that the server lists."""
    client = tuner.as_raw_openai_sdk_client()
    tools = [
        {"type": "function", "function": {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}}
        for tool in (await session.list_tools()).tools
    ]
    messages = [{"role": "system", "content": "Use your tools."}, {"role": "user", "content": query}]
    for _ in range(3):
        completion = await client.chat.completions.create(model="tuned", messages=messages, tools=tools)
        reply = completion.choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        if not reply.tool_calls:
            return WorkflowOutput(metadata={"final_answer": reply.content})
        for call in reply.tool_calls:
            result = await session.call_tool(call.function.name, json.loads(call.function.arguments))
            text = "\n".join(part.text for part in result.content if part.type == "text")
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
    return WorkflowOutput(metadata={"final_answer": ""})
