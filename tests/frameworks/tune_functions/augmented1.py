"""The same with arguments that have no default: an empty dict where the configuration names no auxiliary model."""

from __future__ import annotations

from typing import Dict  # noqa: UP035 - as in such functions

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg
from agentscope.model import OpenAIChatModel
from agentscope.tuner import JudgeOutput, WorkflowOutput


async def solve(task: Dict, model: OpenAIChatModel, auxiliary_models: Dict[str, OpenAIChatModel], logger) -> WorkflowOutput:  # noqa: UP006
    assert len(auxiliary_models) == 0
    agent = ReActAgent(name="solver", sys_prompt="Box the answer.", model=model, formatter=OpenAIChatFormatter())
    agent.set_console_output_enabled(False)
    logger.warning("question %s", task["id"] + 1)
    return WorkflowOutput(response=await agent.reply(msg=Msg("user", task["question"], role="user")))


async def grade(task: Dict, response: Msg, auxiliary_models: Dict[str, OpenAIChatModel], logger) -> JudgeOutput:  # noqa: UP006
    assert len(auxiliary_models) == 0
    logger.warning("graded %s", task["id"])
    return JudgeOutput(reward=float(task["answer"] in response.get_text_content()))
