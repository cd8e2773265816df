"""An agent that answers a visitor of a library in one call."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Desk(Workflow):
    """Returns its answer under the key that the judge reads: `answer_field` is `final_answer`."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer the task's question."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [{"role": "user", "content": workflow_task.task.main_query}]
        reply = await client.chat.completions.create(model="tuned", messages=messages)
        return WorkflowOutput(metadata={"final_answer": reply.choices[0].message.content or ""})
