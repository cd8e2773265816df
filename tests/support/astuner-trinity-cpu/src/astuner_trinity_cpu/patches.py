"""What verl 0.8.0 and Trinity-RFT 0.6.0 need to compute on a CPU; each function changes one module that was just imported."""

from __future__ import annotations

from typing import Any

MISSING = (
    "empty_cache",
    "ipc_collect",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "reset_peak_memory_stats",
)


def of_torch(torch: Any) -> None:
    """Trinity asks for the compute capability whatever there is, and verl asks `torch.cpu` what it asks of `torch.cuda`."""
    torch.cuda.get_device_capability = lambda *_, **__: (0, 0)
    for name in MISSING:
        if not hasattr(torch.cpu, name):
            setattr(torch.cpu, name, lambda *_, **__: 0)


def of_device(module: Any) -> None:
    """Without a GPU the backend for it is gloo."""
    module.get_nccl_backend = lambda: "gloo"


def of_distributed(module: Any) -> None:
    """The process group would be made for two devices of the same name."""
    initialize = module.initialize_global_process_group_ray
    module.initialize_global_process_group_ray = lambda timeout_second=None, backend=None: initialize(timeout_second, "gloo")


def of_engine(module: Any) -> None:
    """FSDP2 is registered for GPUs and NPUs alone; offloading would pin memory, for which there must be one."""
    from verl.workers.engine import EngineRegistry

    for backends in EngineRegistry._engines.values():
        for name in ("fsdp", "fsdp2"):
            if name in backends:
                backends[name].setdefault("cpu", backends[name]["cuda"])
    policy = module.CPUOffloadPolicy
    module.CPUOffloadPolicy = lambda pin_memory=True: policy(pin_memory=False)
