"""What the servers of a run hold: weights and KV cache on each of their GPUs."""

from __future__ import annotations

from astuner.contract.protocols import RunInfo
from astuner.settings.memory_estimate import (
    GIB,
    MAIN_MEMORY,
    PHASES,
    EngineShare,
    MemoryPart,
    MemoryPlan,
    MemoryQuestion,
    plan_engine_share,
)
from astuner_vllm.command import SHARED_GPU_MEMORY
from astuner_vllm.layout import count_servers, share_gpus
from astuner_vllm.machine_settings import MEMORY
from astuner_vllm.options import VllmOptions

ALONE = 0.9
"""vLLM's default share of a GPU."""
DEFAULT_GIB: int = VllmOptions().cpu_kv_cache_gib


def plan_memory(run_info: RunInfo, question: MemoryQuestion) -> MemoryPlan:
    """Return the plan of the servers that a run starts; raises `ConfigError` for too few GPUs."""
    config, hardware = run_info.config, question.hardware
    given, size = config.rollout.get_options("vllm"), config.rollout.tensor_model_parallel_size
    if given.get("url"):
        return MemoryPlan()
    dtype = question.shape.stored_dtype if config.model.dtype == "auto" else config.model.dtype
    item = 4 if dtype == "float32" else 2
    gpus = tuple(str(number) for number in range(hardware.gpus))
    servers = 1 if run_info.backbone == "debug" else count_servers(run_info, size, gpus)
    if not gpus:
        return MemoryPlan(parts=_plan_on_cpu(question, item, servers, given.get("cpu_kv_cache_gib", DEFAULT_GIB)))
    plans = []
    for number in range(servers):
        own = tuple(int(gpu) for gpu in share_gpus(gpus, number, size))
        shared = run_info.backbone == "local" and 0 in own
        share = given.get("gpu_memory_utilization") or (SHARED_GPU_MEMORY if shared else ALONE)
        plans.append(
            plan_engine_share(
                question.shape,
                hardware,
                EngineShare(
                    gpus=own,
                    share=share,
                    spread=size,
                    item=item,
                    max_model_len=config.rollout.max_model_len,
                    share_key=f"astuner.{MEMORY}",
                    phases=PHASES,
                    adapters=question.adapter_parameters,
                ),
            )
        )
    parts = [part for plan in plans for part in plan.parts]
    return MemoryPlan(parts=parts, problems=[problem for plan in plans for problem in plan.problems])


def _plan_on_cpu(question: MemoryQuestion, item: int, servers: int, cache_gib: int) -> list[MemoryPart]:
    weights = (question.shape.parameters + question.adapter_parameters) * item * servers
    cache, why = cache_gib * GIB * servers, f"of {servers} server{'s' * (servers > 1)}"
    key = ("rollout.vllm.cpu_kv_cache_gib lower",)
    return [
        MemoryPart(name="engine's weights", bytes=weights, gpus=(MAIN_MEMORY,), because=why),
        MemoryPart(name="KV cache", bytes=cache, gpus=(MAIN_MEMORY,), because=why, keys=key),
    ]
