"""Small workflows for tests of other components."""

from __future__ import annotations

from astuner.contract.protocols import Tuner, Workflow
from astuner.contract.schema import WorkflowOutput, WorkflowTask


class OneTurn(Workflow):
    """Asks the model the task's query, once, after its first messages; the answer is `final_answer` in the metadata."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Play one episode."""
        api = tuner.as_oai_baseurl_apikey()
        client = tuner.as_raw_openai_sdk_client()
        answer = await client.chat.completions.create(model=api.model, messages=workflow_task.task.messages)
        return WorkflowOutput(metadata={"final_answer": answer.choices[0].message.content or ""})
