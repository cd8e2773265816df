"""verl's handle on a server of this rollout."""

from __future__ import annotations

from typing import Any

import ray
from verl.utils.device import get_device_name
from verl.workers.rollout.replica import RolloutReplica

from astuner_verl.transformers_rollout.server import TransformersServer


def server_name(replica: int) -> str:
    """Return the name of a server within the run's namespace, for the trainer's workers."""
    return f"astuner_transformers_{replica}"


class TransformersReplica(RolloutReplica):
    """One server: an actor next to the workers whose weights it serves."""

    async def launch_servers(self) -> None:
        """Start the server, and wait until it has loaded the model."""
        device = get_device_name()
        options: dict[str, Any] = {
            "name": server_name(self.replica_rank),
            "max_concurrency": self.max_concurrency,
            "num_cpus": 0,
        }
        if device != "cpu":
            node, gpu = await self.workers[0].__ray_call__.remote(_place_of)
            options["scheduling_strategy"] = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
                node_id=node, soft=False
            )
            options["runtime_env"] = {"env_vars": {"CUDA_VISIBLE_DEVICES": gpu}}
        server = ray.remote(TransformersServer).options(**options).remote(self.config, self.model_config, device)
        await server.ready.remote()
        self.servers = [server]
        self._server_handle = server
        self._server_address = server_name(self.replica_rank)


def _place_of(_: Any) -> tuple[str, str]:
    """Return node and GPU of this worker."""
    context = ray.get_runtime_context()
    return context.get_node_id(), str(context.get_accelerator_ids()["GPU"][0])
