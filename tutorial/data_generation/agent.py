"""An agent that answers a question in one call, and a judge that looks for the right answer in the reply."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Guide(Workflow):
    """Knows the harbour only from training; it sees no document."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer the task's question."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [{"role": "user", "content": workflow_task.task.main_query}]
        reply = await client.chat.completions.create(model="tuned", messages=messages)
        return WorkflowOutput(metadata={"final_answer": reply.choices[0].message.content or ""})


class SaysTheAnswer:
    """Rewards an answer that contains the right one with 1, ignoring case."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return reward and success."""
        right = str(workflow_task.task.metadata["answer"]).casefold() in workflow_output.metadata["final_answer"].casefold()
        return float(right), right
