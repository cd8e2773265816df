"""One call of the model, and a reward that any text can have."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Echo(Workflow):
    """Asks once."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Answer one task."""
        client = tuner.as_raw_openai_sdk_client()
        messages = [{"role": "user", "content": workflow_task.task.main_query}]
        completion = await client.chat.completions.create(model="tuned", messages=messages)
        return WorkflowOutput(metadata={"final_answer": completion.choices[0].message.content or ""})


class Length:
    """Rewards answers of many letters."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        length = len(workflow_output.metadata["final_answer"])
        return min(length, 20) / 20, length > 10
