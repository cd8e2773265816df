"""verl's synchronous trainer, driven step by step: it connects workers, engines and weights, and decides nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync


class SteppedTrainer(PPOTrainerSync):
    """Starts what verl starts, with our worker; tasks, episodes, rewards and advantages come from outside."""

    def __init__(self, config: Any, *, engines: bool = True) -> None:
        """Take verl's configuration; without `engines` only the trainer is started."""
        self._enable_hybrid_replicas = engines  # what verl asks for where its engines are elsewhere
        super().__init__(config)

    def _build_replay_buffer(self) -> None:
        """Nothing to do: episodes do not wait here."""

    def _init_dataloader(self) -> None:
        """Nothing to do: tasks do not come from here."""
        self.train_dataloader = self.val_dataloader = None
        self.steps_per_epoch = self.total_training_steps = self.config.trainer.total_training_steps

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        if self.config.trainer.device == "cpu":
            from astuner_verl.cpu.workers import CpuActor as Actor
        else:
            from astuner_verl.worker import PacedActor as Actor
        for role in self.role_worker_mapping:
            self.role_worker_mapping[role] = ray.remote(Actor)

    def _load_checkpoint(self) -> None:
        """Start with the weights of the model; `Host.restore` reads a checkpoint."""
        self.global_steps = 0

    def on_init_end(self) -> None:
        """The engines get weights once it is known which."""

    @contextmanager
    def rest_engines(self) -> Iterator[None]:
        """Free the engines' GPU memory inside the block; afterwards they serve the same weights as before, with empty caches.

        verl's own sleep discards vLLM's weights, so that they would have to be sent again; here they wait in the CPU's memory.
        """
        rollout = self.config.actor_rollout_ref.rollout
        if not rollout.free_cache_engine:
            yield
        elif rollout.name != "vllm":
            self.checkpoint_manager.release_kv_cache_replicas()
            yield
            self.checkpoint_manager.resume_kv_cache_replicas()
        elif rollout.data_parallel_size > 1:
            # A call reaches the workers of one data-parallel part only.
            self.checkpoint_manager.sleep_replicas()
            yield
            self.checkpoint_manager.update_weights(None)
        else:
            self._call_vllm("sleep", level=1)
            yield
            self._call_vllm("wake_up")
            ray.get([replica.servers[0].clear_kv_cache.remote() for replica in self.llm_server_manager.get_replicas()])

    def _call_vllm(self, method: str, **arguments: Any) -> None:
        """Call a method of vLLM's workers in every engine."""
        replicas = self.llm_server_manager.get_replicas()
        ray.get([replica.servers[0].collective_rpc.remote(method, kwargs=arguments) for replica in replicas])

    def data_parallel_size(self) -> int:
        """Return how many parts a batch is cut into."""
        group = self.actor_rollout_wg
        if "actor" not in group._dispatch_info:
            group._dispatch_info["actor"] = group._query_dispatch_info("actor")
        return int(max(group._dispatch_info["actor"]) + 1)

    def reference_logprobs(self, batch: Any) -> Any:
        """Return the log-probabilities of all tokens under the reference: nested [rows, n]."""
        from verl.utils import tensordict_utils as tu

        if self.ref_in_actor:
            tu.assign_non_tensor(batch, no_lora_adapter=True)
            return self.actor_rollout_wg.compute_log_prob(batch)["log_probs"]
        return self.ref_policy_wg.compute_ref_log_prob(batch)["log_probs"]
