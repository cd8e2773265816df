"""The agent: says of a review, in one word, whether it is positive or negative."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask

QUESTION = "{review}\n\nAnswer with only one word, positive or negative."


class Labeller(Workflow):
    """Calls the model once, with the OpenAI SDK."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Label one review."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [{"role": "user", "content": QUESTION.format(review=workflow_task.task.main_query)}]
        completion = await client.chat.completions.create(model="tuned", messages=messages, max_tokens=12)
        return WorkflowOutput(metadata={"answer": completion.choices[0].message.content or ""})
