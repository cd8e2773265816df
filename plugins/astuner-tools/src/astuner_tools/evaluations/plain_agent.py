"""The agent of suites: it asks the question of a task once, and its answer is the text."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class PlainAgent(Workflow):
    """Asks without a system prompt and without tools."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Return the answer as `final_answer`."""
        client = tuner.as_raw_openai_sdk_client()
        reply = await client.chat.completions.create(model="tuned", messages=workflow_task.task.messages)
        return WorkflowOutput(metadata={"final_answer": reply.choices[0].message.content or ""})
