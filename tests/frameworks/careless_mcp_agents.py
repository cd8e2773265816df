"""Agents that leave the contexts of an MCP client open, or in another task. Which one plays depends on the repeat."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, nullcontext, suppress
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SERVER = StdioServerParameters(command=sys.executable, args=[str(Path(__file__).with_name("mcp_server.py"))])
NOTHING_THERE = "http://127.0.0.1:9/mcp"
KEPT: list[AsyncExitStack] = []
"""Keeps contexts from being closed by the garbage collector."""


async def connect(stack: AsyncExitStack) -> ClientSession:
    """Start a server, to be ended with the stack."""
    reader, writer = await stack.enter_async_context(stdio_client(SERVER))
    session = await stack.enter_async_context(ClientSession(reader, writer))
    await session.initialize()
    return session


class Agent(Workflow):
    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        stack = AsyncExitStack()
        match workflow_task.repeat:
            case 0:
                KEPT.append(stack)
                await connect(stack)
            case 1:
                await asyncio.create_task(connect(stack))
                await stack.aclose()
            case 2:
                async with stack:
                    session = await connect(stack)
                    await session.call_tool("end", {})
            case 3:
                async with streamable_http_client(NOTHING_THERE) as streams, ClientSession(*streams) as session:
                    await session.initialize()
            case _:
                async with stack:
                    await connect(stack)
        client = tuner.as_raw_openai_sdk_client()
        await client.chat.completions.create(model="tuned", messages=[{"role": "user", "content": "2 + 2?"}])
        return WorkflowOutput(reward=float(workflow_task.repeat % 2))


class Hanging(Workflow):
    """Leaves the contexts in another task, which never ends.

    The session's scope cancels this task over and over, and with it what it awaits, so that the other task never gets to end
    the server; there a task group waits for the task that reads the server's output, whatever cancels it.
    """

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        stack = AsyncExitStack()
        await connect(stack)
        with suppress(RuntimeError) if workflow_task.repeat else nullcontext():
            await asyncio.create_task(stack.aclose())
        return WorkflowOutput(reward=0.0)


class Waiting(Workflow):
    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        async with AsyncExitStack() as stack:
            await connect(stack)
            await asyncio.sleep(3600)
        return WorkflowOutput(reward=0.0)
