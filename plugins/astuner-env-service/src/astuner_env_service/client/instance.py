"""One instance in a server, from making it to releasing it, kept alive in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from astuner.contract.schema import Message
from astuner_env_service.client.client import EnvServiceClient
from astuner_env_service.client.failures import UNAVAILABLE, UNKNOWN, EnvServiceFailed, EnvServiceLost, Patience
from astuner_env_service.client.states import State

REPEATABLE = "repeatable_steps"
"""In the info of a server that recognises repeated steps: one with the same number gets the same answer."""
NUMBER = "astuner_step"
"""Among the parameters of a step: its number, from 1, for servers that understand it."""

RELEASE = Patience(timeout_s=3.0, max_retries=3, first_pause_s=0.2)
"""Short, since an interrupted run waits for releases."""


class Instance:
    """Belongs to one event loop. `release` is called on every path, also when `create` failed or was cancelled."""

    def __init__(
        self,
        client: EnvServiceClient,
        *,
        env_type: str,
        task_id: str,
        params: Mapping[str, Any] | None = None,
        heartbeat_s: float = 300.0,
    ) -> None:
        """After `heartbeat_s` seconds without a request, a heartbeat keeps the instance alive."""
        self._client, self._env_type, self._task_id, self._params = client, env_type, task_id, params
        # Chosen here, so that an instance can be released even if its creation was never answered.
        self.id = f"astuner-{uuid4().hex}"
        self._created, self._repeatable, self._steps = False, False, 0
        self._heartbeat_s, self._last_s = heartbeat_s, time.monotonic()
        self._heart: asyncio.Task[None] | None = None
        self._skipped = ""

    async def create(self) -> State:
        """Create the instance in the server, and return its first state."""
        self._created = True
        state = await self._client.create(self._env_type, self._task_id, self.id, self._params)
        self.id = str(state.info.get("instance_id") or self.id)
        self._repeatable = state.info.get(REPEATABLE) is True
        self._last_s = time.monotonic()
        self._heart = asyncio.create_task(self._beat(), name=f"heartbeat of {self.id}")
        return state

    async def step(self, action: Message) -> State:
        """Take one step: it is sent again only if the server recognises repetitions, or certainly never received it.

        A step that was given up, after a timeout or cancellation, may or may not have been taken.
        """
        self._steps += 1
        async with self._use():
            if self._repeatable:
                return await self._client.step(self.id, action, {NUMBER: self._steps}, repeat="lost")
            return await self._client.step(self.id, action)

    async def evaluate(self, *, sparse: bool = False) -> float:
        """Return the score so far."""
        async with self._use():
            return await self._client.evaluate(self.id, sparse=sparse)

    async def release(self) -> bool:
        """End the instance in the server; False if the server did not know it, or it was never created."""
        heart, self._heart = self._heart, None
        if heart is not None:
            heart.cancel()
            await asyncio.gather(heart, return_exceptions=True)
        if not self._created:
            return False
        self._created = False
        return await self._client.release(self.id, patience=RELEASE)

    async def _beat(self) -> None:
        while True:
            quiet_s = time.monotonic() - self._last_s
            if quiet_s < self._heartbeat_s:
                await asyncio.sleep(self._heartbeat_s - quiet_s)
                continue
            try:
                await self._client.info(self.id)
                self._skipped = ""
            except EnvServiceFailed as error:
                # This does not end the episode: the next step shows whether the instance still exists, and reports this too.
                self._skipped = str(error)
            self._last_s = time.monotonic()

    @asynccontextmanager
    async def _use(self) -> AsyncIterator[None]:
        try:
            yield
        except EnvServiceFailed as error:
            raise await self._explain(error) from error
        finally:
            self._last_s = time.monotonic()

    async def _explain(self, error: EnvServiceFailed) -> EnvServiceFailed:
        forgotten = error.status in UNKNOWN and not await self._is_known()
        kind = EnvServiceLost if forgotten or error.status in UNAVAILABLE else EnvServiceFailed
        skipped = f" (keeping it alive had failed: {self._skipped})" if self._skipped else ""
        lost = " The server does not know it any more: it was released, or the server was restarted." if forgotten else ""
        return kind(f"{error} [instance {self.id}, task {self._task_id!r}].{lost}{skipped}", status=error.status)

    async def _is_known(self) -> bool:
        try:
            await self._client.info(self.id)
        except EnvServiceFailed as error:
            return error.status not in UNKNOWN
        return True
