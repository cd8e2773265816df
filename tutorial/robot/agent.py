"""The agent: moves a robot to a parcel, one model call per move, in plain HTTP."""

from __future__ import annotations

import httpx

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Robot(Workflow):
    """Needs only a base URL and a key; `workflow_task.gym_env` is the floor."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Fetch one parcel."""
        api, floor = tuner.as_oai_baseurl_apikey(), workflow_task.gym_env
        messages, over, info = await floor.reset(), False, {}
        # There is no TLS on the way to the gateway, and loading certificates would take longer than the episode.
        async with httpx.AsyncClient(headers={"Authorization": f"Bearer {api.api_key}"}, trust_env=False, verify=False) as client:
            while not over:
                body = {"model": api.model, "messages": messages}
                response = await client.post(f"{api.base_url}/chat/completions", json=body, timeout=60)
                reply = response.raise_for_status().json()["choices"][0]["message"]
                seen, _, over, info = await floor.step(reply)
                messages = [*messages, reply, *seen]
        return WorkflowOutput(metadata=info)
