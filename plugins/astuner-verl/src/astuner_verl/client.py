"""verl's client of the engines, with requests that can be cancelled."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import ray
from verl.workers.rollout.llm_server import LLMServerClient


class CancellingClient(LLMServerClient):
    """Sends all calls of a session to one server, and new sessions to the least busy one."""

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any) -> Any:
        """Return the answer; when the caller is cancelled, so is the request."""
        name, server = await self._acquire_server(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)
        asked = {"request_id": uuid4().hex, "prompt_ids": prompt_ids, "sampling_params": sampling_params}
        answer = server.generate.remote(**asked)
        try:
            return await answer
        except asyncio.CancelledError:
            ray.cancel(answer)
            raise
        finally:
            self._release_server(name, request_id=request_id)
