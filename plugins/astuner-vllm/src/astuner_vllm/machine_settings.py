"""What the settings of servers become on this machine: their number, and the memory and sequences of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astuner.contract.protocols import RunInfo, SettledValue, settle_sequences
from astuner_vllm.command import SHARED_GPU_MEMORY
from astuner_vllm.gpus import visible_gpus
from astuner_vllm.installed import installed
from astuner_vllm.layout import count_servers

MEMORY = "rollout.vllm.gpu_memory_utilization"
LOW = 0.5
"""A smaller share of a GPU that a server has for itself wastes at least half of it."""


def settle_values(run_info: RunInfo) -> Sequence[SettledValue]:
    """Return the values for the servers that a run starts; none without vLLM or for external servers."""
    vllm = installed()
    if vllm is None or run_info.config.rollout.get_options("vllm").get("url"):
        return ()
    return tuple(_settle(run_info, () if vllm.cpu else visible_gpus()))


def _settle(run_info: RunInfo, gpus: tuple[str, ...]) -> Iterator[SettledValue]:
    size = run_info.config.rollout.tensor_model_parallel_size
    servers = 1 if run_info.backbone == "debug" else count_servers(run_info, size, gpus)
    if run_info.backbone != "debug":
        given = "rollout.n_vllm_engine" in run_info.user_keys
        why = "set in the configuration" if given else f"{len(gpus)} GPUs, {size} for each server" if gpus else "there is no GPU"
        why += ", one for the trainer" if len(gpus) > 1 and not given else ""
        yield SettledValue(key="rollout.n_vllm_engine", value=servers, because=why)
    yield settle_sequences(run_info.config.rollout, engines=servers, gpu=bool(gpus))
    if not gpus:
        return
    share = run_info.config.rollout.get_options("vllm").get("gpu_memory_utilization")
    beside = run_info.backbone == "local" and servers * size >= len(gpus)
    if share is None:
        why = f"{SHARED_GPU_MEMORY} next to the trainer" if beside else "no trainer on its GPU"
        yield SettledValue(key=MEMORY, value=SHARED_GPU_MEMORY if beside and servers == 1 else "vLLM's default", because=why)
    else:
        cost = None
        if share < LOW and not beside:
            cost = "nothing else computes on the GPUs of the servers, and most of their memory is not used. Leave it out."
        yield SettledValue(key=MEMORY, value=share, because="set in the configuration", cost=cost)
