"""What agents of AgentScope 1 do besides calling tools, each played with scripted answers; for test_agentscope_features.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter, OpenAIMultiAgentFormatter
from agentscope.mcp import StdIOStatefulClient
from agentscope.memory import LongTermMemoryBase
from agentscope.message import Msg, TextBlock
from agentscope.pipeline import MsgHub
from agentscope.plan import PlanNotebook
from agentscope.token import CharTokenCounter
from agentscope.tool import Toolkit, ToolResponse
from calculator_server import COMMAND
from pydantic import BaseModel

Feature = tuple[tuple[str, ...], Callable[[Any, Path], Awaitable[str]]]
"""The answers of the model, and what plays; it returns the last text."""
DONE = "It is done."


class Vote(BaseModel):
    vote: str


class Memory(LongTermMemoryBase):
    """Keeps texts as they are; the ones that AgentScope ships need a service."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    async def record(self, msgs: Any, **kwargs: Any) -> None:
        self.texts += [msg.get_text_content() or "" for msg in msgs if msg]

    async def retrieve(self, msg: Any, **kwargs: Any) -> str:
        return "\n".join(self.texts)

    async def record_to_memory(self, thinking: str, content: list[str], **kwargs: Any) -> ToolResponse:
        """Record what matters."""
        self.texts += content
        return respond("Recorded.")

    async def retrieve_from_memory(self, keywords: list[str], **kwargs: Any) -> ToolResponse:
        """Look up what was recorded."""
        return respond("\n".join(self.texts))


def respond(text: str) -> ToolResponse:
    return ToolResponse(content=[TextBlock(type="text", text=text)])


def call(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def calculator(expression: str) -> ToolResponse:
    """Calculate."""
    return respond(f"408 – {expression}")


SUM = call("calculator", expression="12*34")


def make_agent(tuner: Any, tools: tuple[Any, ...] = (), name: str = "agent", **options: Any) -> ReActAgent:
    toolkit = options.pop("toolkit", None) or Toolkit()
    for tool in tools:
        toolkit.register_tool_function(tool)
    options = {"formatter": OpenAIChatFormatter(), "model": tuner.as_agentscope_model(name), **options}
    agent = ReActAgent(name=name, sys_prompt="Work.", toolkit=toolkit, **options)
    agent.set_console_output_enabled(False)
    return agent


async def ask(agent: Any, *questions: str, **options: Any) -> str:
    text = ""
    for question in questions:
        reply = await agent(Msg("user", question, "user"), **options)
        text = reply.get_text_content() or ""
    return text


async def play_two_tools(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, (calculator,), parallel_tool_calls=True), "12 * 34? 5 * 6?")


async def play_without_stream(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, (calculator,), model=tuner.as_agentscope_model(stream=False)), "12 * 34?")


async def play_three_turns(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, (calculator,)), "one", "two", "three")


async def play_structured(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner), "Who?", structured_model=Vote)


async def play_structured_model(tuner: Any, folder: Path) -> str:
    answers = await tuner.as_agentscope_model()([{"role": "user", "content": "Who?"}], structured_model=Vote)
    return str([answer.metadata async for answer in answers][-1]["vote"])


async def play_compression(tuner: Any, folder: Path) -> str:
    config = ReActAgent.CompressionConfig(
        enable=True, agent_token_counter=CharTokenCounter(), trigger_threshold=1000, keep_recent=1
    )
    return await ask(make_agent(tuner, compression_config=config), "word " * 150, "word " * 150, "End.")


async def play_memory(tuner: Any, folder: Path) -> str:
    agent = make_agent(tuner, long_term_memory=Memory(), long_term_memory_mode="both")
    return await ask(agent, "Remember that I like tea.", "What do I like?")


async def play_plan(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, plan_notebook=PlanNotebook()), "Plan it.")


async def play_agent_as_tool(tuner: Any, folder: Path) -> str:
    worker = make_agent(tuner, (calculator,), name="worker")

    async def delegate(question: str) -> ToolResponse:
        """Ask the worker."""
        return respond(await ask(worker, question))

    return await ask(make_agent(tuner, (delegate,)), "12 * 34?")


async def play_hooks(tuner: Any, folder: Path) -> str:
    seen: list[str] = []
    agent = make_agent(tuner, (calculator,))
    agent.register_instance_hook("pre_reasoning", "watch", lambda self, kwargs: seen.append("reasoning"))
    agent.register_instance_hook("post_acting", "watch", lambda self, kwargs, output: seen.append("acting"))
    text = await ask(agent, "12 * 34?")
    assert seen == ["reasoning", "acting", "reasoning"]
    return text


async def play_last_turn(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, (calculator,), max_iters=2), "12 * 34?")


async def play_interrupted(tuner: Any, folder: Path) -> str:
    agent, begun = make_agent(tuner), asyncio.Event()
    # The text so far is printed with each piece of the answer.
    agent.register_instance_hook("pre_print", "watch", lambda self, kwargs: begun.set())
    reply = asyncio.create_task(ask(agent, "Count."))
    await begun.wait()
    await agent.interrupt()
    await reply
    return await ask(agent, "Again.")


async def play_observers(tuner: Any, folder: Path) -> str:
    first, second = make_agent(tuner, name="first"), make_agent(tuner, name="second")
    async with MsgHub([first, second]):
        await first(Msg("user", "Begin.", "user"))
        await second()
        return (await first()).get_text_content() or ""


async def play_multi_agent_formatter(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, formatter=OpenAIMultiAgentFormatter()), "one", "two", "three")


async def play_mcp(tuner: Any, folder: Path) -> str:
    client, toolkit = StdIOStatefulClient("sums", COMMAND[0], list(COMMAND[1:])), Toolkit()
    await client.connect()
    try:
        await toolkit.register_mcp_client(client)
        return await ask(make_agent(tuner, toolkit=toolkit), "12 * 34?")
    finally:
        await client.close()


PLAN = (
    call(
        "create_plan",
        name="sum",
        description="d",
        expected_outcome="o",
        subtasks=[{"name": "multiply", "description": "d", "expected_outcome": "o"}],
    ),
    call("finish_subtask", subtask_idx=0, subtask_outcome="408"),
    call("finish_plan", state="done", outcome="408"),
    DONE,
)
REMEMBER = call("record_to_memory", thinking="They like tea.", content=["tea"])
SUMMARY = json.dumps(
    dict.fromkeys(("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve"), "x")
)
FEATURES: Mapping[str, Feature] = {
    "two tools at once, text that is not ASCII": ((f"{SUM}\n{call('calculator', expression='5 × 6')}", DONE), play_two_tools),
    "no streaming": ((SUM, DONE), play_without_stream),
    "an agent that is asked three times": (("one", SUM, "two", DONE), play_three_turns),
    "structured output of an agent": ((call("generate_response", vote="ann"), DONE), play_structured),
    "structured output of a model": (('{"vote": "ann"}',), play_structured_model),
    "compression": (("one", "two", SUMMARY, DONE), play_compression),
    "long-term memory": ((REMEMBER, "Saved.", DONE), play_memory),
    "a plan notebook": (PLAN, play_plan),
    "an agent as a tool": ((call("delegate", question="12 * 34?"), SUM, "408", DONE), play_agent_as_tool),
    "hooks": ((SUM, DONE), play_hooks),
    "the limit of turns is reached": ((SUM, SUM, DONE), play_last_turn),
    "interrupted in mid-answer": (("one two three " * 20, DONE), play_interrupted),
    "agents that observe each other": (("I begin.", "I go on.", DONE), play_observers),
    "the formatter for several agents": (("one", "two", DONE), play_multi_agent_formatter),
    "tools of an MCP server": ((SUM, DONE), play_mcp),
}
