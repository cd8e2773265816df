"""A calculator agent on the OpenAI Agents SDK, whose runner calls the model and the tools. It speaks the Responses API."""

from __future__ import annotations

import math

from agents import Agent, MaxTurnsExceeded, ModelBehaviorError, OpenAIResponsesModel, RunConfig, Runner, function_tool

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


@function_tool
def calculator(expression: str) -> str:
    """Multiply the whole numbers of an expression such as 12*34."""
    try:
        return str(math.prod(map(int, expression.split("*"))))
    except ValueError as error:
        return f"error: {error}"


class CalculatorAgent(Workflow):
    """Lets the SDK play the whole episode."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question in at most three calls."""
        model = OpenAIResponsesModel(model="tuned", openai_client=tuner.as_raw_openai_sdk_client())
        agent = Agent(name="calculator", instructions="Use your tools.", tools=[calculator], model=model)
        try:
            # Traces would go to OpenAI's own servers.
            config = RunConfig(tracing_disabled=True)
            result = await Runner.run(agent, workflow_task.task.main_query, max_turns=3, run_config=config)
        except (MaxTurnsExceeded, ModelBehaviorError):
            # The second is what a call of an unknown tool raises: a wrong answer, not a failed episode.
            return WorkflowOutput(metadata={"final_answer": ""})
        return WorkflowOutput(metadata={"final_answer": result.final_output})
