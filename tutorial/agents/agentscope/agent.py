"""A calculator agent on AgentScope 2, streaming, with AgentScope's own loop of model calls and tool calls."""

from __future__ import annotations

import math

from agentscope.agent import Agent, InjectionConfig, ReActConfig
from agentscope.message import UserMsg
from agentscope.tool import FunctionTool, Toolkit

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


def calculator(expression: str) -> str:
    """Multiply the whole numbers of an expression such as 12*34."""
    try:
        return str(math.prod(map(int, expression.split("*"))))
    except ValueError as error:
        return f"error: {error}"


class CalculatorAgent(Workflow):
    """Lets AgentScope's agent play the whole episode."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question in at most three calls."""
        agent = Agent(
            name="calculator",
            system_prompt="Use your tools.",
            model=tuner.as_agentscope_model(),
            # A tool that is not read-only waits for a permission that never comes.
            toolkit=Toolkit(tools=[FunctionTool(calculator, is_read_only=True)]),
            react_config=ReActConfig(max_iters=3),
            # Without this the prompt holds the time of day, which the model would be trained on.
            injection_config=InjectionConfig(inject_runtime_state=False),
        )
        reply = await agent.reply(UserMsg(name="user", content=workflow_task.task.main_query))
        return WorkflowOutput(metadata={"final_answer": reply.get_text_content() or ""})
