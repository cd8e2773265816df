"""The agent of `rollout.py`: a few turns of chat over a bare HTTP connection, so that no SDK's time is counted."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

from traffic import Connection

from astuner import Tuner, Workflow, WorkflowOutput, WorkflowTask


class Chat(Workflow):
    """Asks, and asks again."""

    async def execute(self, workflow_task: WorkflowTask, tuner: Tuner) -> WorkflowOutput:
        """Hold the conversation that the task describes; its reward is of no interest."""
        endpoint, metadata = tuner.as_oai_baseurl_apikey(), workflow_task.task.metadata
        address = urlsplit(endpoint.base_url)
        connection = Connection(address.port or 80, f"{address.path}/chat/completions", endpoint.api_key)
        await connection.open()
        messages = [{"role": "user", "content": f"{workflow_task.task.main_query} ({workflow_task.episode_id})"}]
        for turn in range(metadata["turns"]):
            body = {"model": endpoint.model, "messages": messages, "max_tokens": metadata["tokens"]}
            answer, _, _ = await connection.post(json.dumps(body).encode())
            said = json.loads(answer)["choices"][0]["message"]
            messages += [said, {"role": "user", "content": f"Go on with part {turn + 2}."}]
        connection.close()
        return WorkflowOutput(reward=0.0)
