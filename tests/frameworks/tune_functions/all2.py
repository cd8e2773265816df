"""The same functions with AgentScope 2, which has no module `tuner`: they return objects of any class."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from agentscope.agent import Agent, InjectionConfig, ReActConfig
from agentscope.message import Msg, UserMsg
from agentscope.model import ChatModelBase
from agentscope.tool import FunctionTool, Toolkit
from pydantic import BaseModel


@dataclass
class WorkflowOutput:
    reward: float | None = None
    response: Any = None
    metrics: dict[str, Any] | None = None


@dataclass
class JudgeOutput:
    reward: float
    metrics: dict[str, Any] = field(default_factory=dict)


def make_agent(name: str, model: ChatModelBase, tools: tuple[Any, ...] = ()) -> Agent:
    return Agent(
        name=name,
        system_prompt="Answer.",
        model=model,
        toolkit=Toolkit(tools=[FunctionTool(tool, is_read_only=True) for tool in tools]),
        react_config=ReActConfig(max_iters=4),
        injection_config=InjectionConfig(inject_runtime_state=False),
    )


async def solve(task: dict, model: ChatModelBase, auxiliary_models: dict[str, ChatModelBase] | None = None) -> WorkflowOutput:
    assert not auxiliary_models
    return WorkflowOutput(response=await make_agent("solver", model).reply(UserMsg(name="user", content=task["question"])))


async def grade_sum(task: dict, response: Msg, auxiliary_models: dict[str, ChatModelBase] | None = None) -> JudgeOutput:
    assert not auxiliary_models
    boxed = re.findall(r"\\boxed\{(.*?)\}", response.get_text_content())
    scores = {"accuracy": float(boxed[-1:] == [task["answer"].split("####")[1].strip()]), "format_score": 0.1 * bool(boxed)}
    return JudgeOutput(reward=sum(scores.values()), metrics=scores)


async def ask(task: dict, model: ChatModelBase, auxiliary_models: dict[str, ChatModelBase], logger: Any) -> WorkflowOutput:
    assert len(auxiliary_models) == 1
    logger.warning("patient %s", task["id"] + 1)
    said = [
        Msg(name=each["role"], content=[{"type": "text", "text": each["content"]}], role=each["role"])
        for each in task["messages"]
    ]
    return WorkflowOutput(response=await make_agent("doctor", model).reply(said))


async def grade_question(task: dict, response: Msg, auxiliary_models: dict[str, ChatModelBase], logger: Any) -> JudgeOutput:
    found = await auxiliary_models["scorer"](
        [UserMsg(name="user", content=f"{task['info_truth']}: {response.get_text_content()}")]
    )
    scores = dict(re.findall(r"<(\w+)>(.*?)</\1>", "".join(block.text for block in found.content)))
    logger.warning("scored %s", scores)
    reward = 1 + 2 * float(scores["content_score"]) + float(scores["format_score"])
    return JudgeOutput(reward=reward, metrics={"reward": reward, "trained": "doctor"})


async def play(task: dict, model: ChatModelBase, auxiliary_models: dict[str, ChatModelBase]) -> WorkflowOutput:
    names = ("first", "second", "third")
    trained = task.get("workflow_args", {}).get("trainable_target", "first")
    players = {name: make_agent(name, model if name == trained else auxiliary_models["participant"]) for name in names}
    said: Msg = UserMsg(name="moderator", content=f"Round {task.get('seed', 0)}")
    for _ in range(task.get("rounds", 2)):
        for player in players.values():
            said = UserMsg(name="table", content=(await player.reply(said)).get_text_content())
    return WorkflowOutput(reward=1.0, metrics={"success": 1.0, "trainable_target": trained})


class Answer(BaseModel):
    answer: str
    sources: list[str]


async def search(task: dict, model: ChatModelBase, auxiliary_models: dict[str, ChatModelBase]) -> WorkflowOutput:
    assert len(auxiliary_models) > 0
    read = []

    def read_mail(message_id: str) -> str:
        """Return a mail."""
        read.append(message_id)
        return "The meeting is on Friday."

    agent = make_agent("mail", model, (read_mail,))
    reply = await agent.reply(UserMsg(name="user", content=task["question"]), structured_schema=Answer)
    reply.metadata.update({"found": reply.structured_output, "read": read})
    return WorkflowOutput(response=reply)


async def grade_search(task: dict, response: Msg, auxiliary_models: dict[str, ChatModelBase]) -> JudgeOutput:
    found = response.metadata["found"]
    said = await auxiliary_models["judge"]([UserMsg(name="user", content=f"{task['answer']} = {found['answer']}?")])
    accepted = "true" in "".join(block.text for block in said.content)
    scores = {
        "accuracy": 1.0 if accepted else -1.0,
        "format": 0.1 * (task["message_ids"][0] in response.metadata["read"]) + 0.1 * (found["sources"] == task["message_ids"]),
    }
    return JudgeOutput(reward=sum(scores.values()), metrics={**scores, "turns": len(response.metadata["read"])})
