"""A calculator agent on AgentScope 1, streaming, with its `ReActAgent`."""

from __future__ import annotations

import math

from agentscope.agent import ReActAgent
from agentscope.formatter import OpenAIChatFormatter
from agentscope.message import Msg, TextBlock
from agentscope.tool import Toolkit, ToolResponse

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


def calculator(expression: str) -> ToolResponse:
    """Multiply the whole numbers of an expression such as 12*34."""
    try:
        text = str(math.prod(map(int, expression.split("*"))))
    except ValueError as error:
        text = f"error: {error}"
    return ToolResponse(content=[TextBlock(type="text", text=text)])


class CalculatorAgent(Workflow):
    """Lets AgentScope's agent play the whole episode."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question in at most three calls."""
        toolkit = Toolkit()
        toolkit.register_tool_function(calculator)
        agent = ReActAgent(
            name="calculator",
            sys_prompt="Use your tools.",
            model=tuner.as_agentscope_model(),
            formatter=OpenAIChatFormatter(),
            toolkit=toolkit,
            max_iters=3,
        )
        agent.set_console_output_enabled(False)
        reply = await agent(Msg("user", workflow_task.task.main_query, "user"))
        return WorkflowOutput(metadata={"final_answer": reply.get_text_content() or ""})
