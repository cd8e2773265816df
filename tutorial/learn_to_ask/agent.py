"""The agent: asks for what it does not know, then books, one model call per step."""

from __future__ import annotations

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Clerk(Workflow):
    """`workflow_task.gym_env` is the guest."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Serve one guest."""
        client, desk = tuner.as_raw_openai_sdk_client(), workflow_task.gym_env
        messages, over, info = await desk.reset(), False, {}
        while not over:
            completion = await client.chat.completions.create(model="tuned", messages=messages)
            reply = {"role": "assistant", "content": completion.choices[0].message.content or ""}
            seen, _, over, info = await desk.step(reply)
            messages = [*messages, reply, *seen]
        return WorkflowOutput(metadata=info)
