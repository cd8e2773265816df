"""The trainer's side of the rollout: all workers collect the weights, one per server sends them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from torch import Tensor
from verl.workers.rollout.base import BaseRollout

from astuner_verl.transformers_rollout.replica import server_name

BUCKET_BYTES = 512 * 2**20


class WeightSender(BaseRollout):
    """Hands new weights to the server, bucket by bucket."""

    def __init__(self, config: Any, model_config: Any, device_mesh: Any, **_: Any) -> None:
        """Find the server that gets weights from here, and whether this worker sends them."""
        super().__init__(config, model_config, device_mesh)
        rank, size = int(os.environ["RANK"]), self.config.tensor_model_parallel_size * self.config.data_parallel_size
        self._leads, self._replica = rank % size == 0, rank // size

    async def resume(self, tags: list[str]) -> None:
        """The server keeps its memory."""

    async def release(self) -> None:
        """The server keeps its memory."""

    @torch.no_grad()
    async def update_weights(
        self, weights: Iterable[tuple[str, Tensor]], wire_format: str = "named_tensors", **settings: Any
    ) -> None:
        """Send the weights, or adapters alone if there is a `peft_config`.

        Every worker must iterate over them, since that collects them.
        """
        adapter = settings.get("peft_config")
        server = ray.get_actor(server_name(self._replica)) if self._leads else None
        bucket: dict[str, Tensor] = {}
        held = 0
        for name, value in weights:
            if server is None:
                continue
            bucket[name] = value.detach().cpu()
            held += bucket[name].nbytes
            if held >= BUCKET_BYTES:
                await server.load_weights.remote(bucket, adapter)
                bucket, held = {}, 0
        if server is not None:
            await server.load_weights.remote(bucket, adapter)
            await server.finish_weights.remote(settings.get("global_steps"))
