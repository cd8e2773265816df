"""What agents of AgentScope 2 do besides calling tools, each played with scripted answers; for test_agentscope_features.py."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from agentscope.agent import Agent, InjectionConfig, ReActConfig
from agentscope.mcp import MCPClient, StdioMCPConfig
from agentscope.message import Msg, UserMsg
from agentscope.middleware import AgenticMemoryMiddleware, MiddlewareBase
from agentscope.permission import PermissionContext, PermissionMode
from agentscope.pipeline import TeamMember, TeamPipeline
from agentscope.state import AgentState
from agentscope.tool import FunctionTool, TaskCreate, TaskList, TaskUpdate, Toolkit, Write
from calculator_server import COMMAND
from pydantic import BaseModel

Feature = tuple[tuple[str, ...], Callable[[Any, Path], Awaitable[str]]]
"""The answers of the model, and what plays; it returns the last text."""
QUIET = InjectionConfig(inject_runtime_state=False)
DONE = "It is done."


class Vote(BaseModel):
    vote: str


class Watching(MiddlewareBase):
    """Calls the model as it is, and adds a line to the system prompt."""

    async def on_model_call(self, agent: Any, input_kwargs: dict[str, Any], next_handler: Any) -> Any:
        return await next_handler(**input_kwargs)

    async def on_system_prompt(self, agent: Any, current_prompt: str) -> str:
        return f"{current_prompt}\nBe brief."


def call(name: str, /, **arguments: Any) -> str:
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments}, ensure_ascii=False)}\n</tool_call>"


def calculator(expression: str) -> str:
    """Calculate."""
    return f"408 – {expression}"


CALCULATOR = FunctionTool(calculator, is_read_only=True)
SUM = call("calculator", expression="12*34")


def make_agent(tuner: Any, tools: list[Any] | None = None, name: str = "agent", **options: Any) -> Agent:
    options = {"injection_config": QUIET, "toolkit": Toolkit(tools=tools or []), **options}
    model = options.pop("model", None) or tuner.as_agentscope_model(name)
    return Agent(name=name, system_prompt="Work.", model=model, **options)


async def ask(agent: Any, *questions: str) -> str:
    text = ""
    for question in questions:
        reply = await agent.reply(UserMsg(name="user", content=question))
        text = reply.get_text_content() or ""
    return text


async def play_two_tools(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, [CALCULATOR]), "12 * 34? 5 * 6?")


async def play_without_stream(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, [CALCULATOR], model=tuner.as_agentscope_model(stream=False)), "12 * 34?")


async def play_three_turns(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, [CALCULATOR]), "one", "two", "three")


async def play_structured(tuner: Any, folder: Path) -> str:
    reply = await make_agent(tuner).reply(UserMsg(name="user", content="Who?"), structured_schema=Vote)
    return reply.get_text_content() or ""


async def play_structured_model(tuner: Any, folder: Path) -> str:
    answer = await tuner.as_agentscope_model().generate_structured_output([UserMsg(name="user", content="Who?")], Vote)
    return str(answer.content["vote"])


async def play_compression(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, model=tuner.as_agentscope_model(context_size=3000)), *["word " * 400] * 5)


async def play_memory(tuner: Any, folder: Path) -> str:
    state = AgentState(permission_context=PermissionContext(mode=PermissionMode.BYPASS))
    # The instructions by default are longer than the context of this test.
    settings = AgenticMemoryMiddleware.Parameters(memory_instructions="Keep what you learn in files.")
    memory = AgenticMemoryMiddleware(workdir=str(folder), parameters=settings)
    return await ask(
        make_agent(tuner, [Write()], middlewares=[memory], state=state), "Remember that I like tea.", "What do I like?"
    )


async def play_tasks(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, [TaskCreate(), TaskUpdate(), TaskList()]), "Plan it.")


async def play_team(tuner: Any, folder: Path) -> str:
    member = TeamMember(agent=make_agent(tuner, name="worker"), description="Calculates.")
    return await ask_stream(TeamPipeline(leader=make_agent(tuner), members=[member]), "12 * 34?")


async def ask_stream(pipeline: Any, question: str) -> str:
    async for _ in pipeline.reply_stream(UserMsg(name="user", content=question)):
        pass
    return str(pipeline.leader.state.context[-1].get_text_content())


async def play_agent_as_tool(tuner: Any, folder: Path) -> str:
    worker = make_agent(tuner, [CALCULATOR], name="worker")

    async def delegate(question: str) -> str:
        """Ask the worker."""
        return await ask(worker, question)

    return await ask(make_agent(tuner, [FunctionTool(delegate, is_read_only=True)]), "12 * 34?")


async def play_skill(tuner: Any, folder: Path) -> str:
    skill = folder / "sums"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: sums\ndescription: How to calculate.\n---\nUse the calculator.\n")
    toolkit = Toolkit(tools=[CALCULATOR], skills_or_loaders=[str(skill)])
    return await ask(make_agent(tuner, toolkit=toolkit), "12 * 34?")


async def play_middleware(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, [CALCULATOR], middlewares=[Watching()]), "12 * 34?")


async def play_last_turn(tuner: Any, folder: Path) -> str:
    return await ask(make_agent(tuner, [CALCULATOR], react_config=ReActConfig(max_iters=2)), "12 * 34?")


async def play_interrupted(tuner: Any, folder: Path) -> str:
    agent = make_agent(tuner)
    events = agent.reply_stream(UserMsg(name="user", content="Count."))
    async for event in events:
        if "DELTA" in str(event.type):
            break
    await events.aclose()
    return await ask(agent, "Again.")


async def play_observers(tuner: Any, folder: Path) -> str:
    first, second = make_agent(tuner, name="first"), make_agent(tuner, name="second")
    reply: Msg = await first.reply(UserMsg(name="user", content="Begin."))
    await second.observe(reply)
    reply = await second.reply(UserMsg(name="user", content="And you?"))
    await first.observe(reply)
    return await ask(first, "End.")


async def play_mcp(tuner: Any, folder: Path) -> str:
    client = MCPClient(name="sums", is_stateful=True, mcp_config=StdioMCPConfig(command=COMMAND[0], args=list(COMMAND[1:])))
    await client.connect()
    try:
        return await ask(make_agent(tuner, toolkit=Toolkit(mcps=[client])), "12 * 34?")
    finally:
        await client.close()


SUMMARY = dict.fromkeys(("task_overview", "current_state", "important_discoveries", "next_steps", "context_to_preserve"), "x")
TASKS = (
    call("TaskCreate", subject="sum", description="12 * 34"),
    call("TaskUpdate", task_id="1", status="completed"),
    call("TaskList"),
    DONE,
)
FEATURES: Mapping[str, Feature] = {
    "two tools at once, text that is not ASCII": ((f"{SUM}\n{call('calculator', expression='5 × 6')}", DONE), play_two_tools),
    "no streaming": ((SUM, DONE), play_without_stream),
    "an agent that is asked three times": (("one", SUM, "two", DONE), play_three_turns),
    "structured output of an agent": ((call("GenerateStructuredOutput", vote="ann"), DONE), play_structured),
    "structured output of a model": ((call("generate_structured_output", vote="ann"), DONE), play_structured_model),
    "compression": ((*["answer"] * 4, call("generate_structured_output", **SUMMARY), DONE), play_compression),
    "long-term memory": ((call("Write", file_path="Memory/tea.md", content="tea"), "Saved.", DONE, DONE), play_memory),
    "task tools": (TASKS, play_tasks),
    "a team": ((call("TeamAssign", member="worker", prompt="12 * 34?"), "408", DONE), play_team),
    "an agent as a tool": ((call("delegate", question="12 * 34?"), SUM, "408", DONE), play_agent_as_tool),
    "a skill": ((call("Skill", skill="sums"), SUM, DONE), play_skill),
    "middleware": ((SUM, DONE), play_middleware),
    "the limit of turns is reached": ((SUM, SUM, DONE), play_last_turn),
    "interrupted in mid-answer": (("one two three " * 20, DONE), play_interrupted),
    "agents that observe each other": (("I begin.", "I go on.", DONE), play_observers),
    "tools of an MCP server": ((SUM, DONE), play_mcp),
}
