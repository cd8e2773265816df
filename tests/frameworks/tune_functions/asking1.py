"""A doctor that asks or stops: the task is a list of messages, and another model scores the question."""

from __future__ import annotations

import re

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.memory import InMemoryMemory
from agentscope.message import Msg
from agentscope.model import OpenAIChatModel
from agentscope.tuner import JudgeOutput, WorkflowOutput

SCORER = "scorer"


async def ask(task: dict, model: OpenAIChatModel, auxiliary_models: dict[str, OpenAIChatModel]) -> WorkflowOutput:
    assert len(auxiliary_models) == 1
    agent = ReActAgent(
        name="doctor",
        sys_prompt="Ask one question, or stop.",
        model=model,
        formatter=OpenAIChatFormatter(),
        toolkit=None,
        memory=InMemoryMemory(),
        max_iters=1,
    )
    agent.set_console_output_enabled(False)
    said = [Msg(name=each["role"], content=each["content"], role=each["role"]) for each in task["messages"]]
    return WorkflowOutput(response=await agent.reply(said))


async def grade(task: dict, response: Msg, auxiliary_models: dict[str, OpenAIChatModel]) -> JudgeOutput:
    text = response.get_text_content()
    history = [*task["messages"], {"role": "assistant", "content": text}]
    lines = "\n".join(f"{each['role']}: {each['content']}" for each in history)
    asked = [{"role": "system", "content": f"Known: {task['info_truth']}"}, {"role": "user", "content": lines}]
    found = await auxiliary_models[SCORER](asked)
    answer = Msg(name="assistant", content=list(found.content), role="assistant").get_text_content()
    scores = dict(re.findall(r"<(\w+)>(.*?)</\1>", answer))
    reward = 1 + 2 * float(scores["content_score"]) + float(scores["format_score"])
    return JudgeOutput(reward=reward, metrics={"reward": reward})
