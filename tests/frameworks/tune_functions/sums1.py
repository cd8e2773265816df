"""A workflow and a judge of `tune()`, with AgentScope 1: one agent, no auxiliary models, the answer in a box."""

from __future__ import annotations

import re

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg
from agentscope.model import OpenAIChatModel
from agentscope.tuner import JudgeOutput, WorkflowOutput


async def solve(task: dict, model: OpenAIChatModel, auxiliary_models: dict[str, OpenAIChatModel] | None = None) -> WorkflowOutput:
    assert not auxiliary_models
    agent = ReActAgent(
        name="solver", sys_prompt="Box the answer.", model=model, enable_meta_tool=True, formatter=OpenAIChatFormatter()
    )
    agent.set_console_output_enabled(False)
    answer = await agent.reply(msg=Msg("user", task["question"], role="user"))
    return WorkflowOutput(response=answer)


async def grade(task: dict, response: Msg, auxiliary_models: dict[str, OpenAIChatModel] | None = None) -> JudgeOutput:
    assert not auxiliary_models
    truth = task["answer"].split("####")[1].strip()
    boxed = re.findall(r"\\boxed\{(.*?)\}", response.get_text_content())
    scores = {"accuracy": float(boxed[-1:] == [truth]), "format_score": 0.1 * bool(boxed)}
    return JudgeOutput(reward=sum(scores.values()), metrics=scores)
