"""The agent: answers with the opposites of two words, in one line of text."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

SYSTEM_PROMPT = "Write the opposite of each word."


class Contrarian(Workflow):
    """Calls the model once, and hands on what it wrote."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one question."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [
            {"role": "system", "content": SYSTEM_PROMPT},
            {"role": "user", "content": workflow_task.task.main_query},
        ]
        completion = await client.chat.completions.create(model="tuned", messages=messages)
        return WorkflowOutput(metadata={"answer": completion.choices[0].message.content or ""})
