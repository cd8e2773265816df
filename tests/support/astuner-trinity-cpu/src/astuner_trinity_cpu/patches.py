"""What verl, Trinity-RFT and its vLLM need to compute on a CPU; each function changes one module that was just imported."""

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


def of_vllm_worker(module: Any) -> None:
    """Trinity's worker extends vLLM's for GPUs; vLLM's for the CPU extends the same."""
    from vllm.v1.worker.cpu_worker import CPUWorker

    class TrinityCPUWorker(module.TrinityGPUWorker, CPUWorker):
        """Trinity's patches on the worker for the CPU."""

        def finish_weight_update(self) -> None:
            super().finish_weight_update()
            _pack_tied_heads(self.model_runner.get_model())

    module.TrinityGPUWorker = TrinityCPUWorker


def _pack_tied_heads(model: Any) -> None:
    """A head that shares the embedding's weights is packed for the CPU on its own, and vLLM packs only the embedding again."""
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
    from vllm.model_executor.layers.vocab_parallel_embedding import VocabParallelEmbedding

    for layer in model.modules():
        if isinstance(layer, VocabParallelEmbedding) and hasattr(layer, "cpu_linear"):
            dispatch_cpu_unquantized_gemm(layer, remove_weight=False)


def of_weight_transfer(module: Any) -> None:
    """Weights come from the file or the synchronizer as on a GPU; the one worker has none to hand them to."""
    from vllm.distributed.utils import StatelessProcessGroup

    class Group:
        """In the place of NCCL's communicator."""

        def __init__(self, host: str, port: int, rank: int, world_size: int, device: Any) -> None:
            self.group = StatelessProcessGroup.create(host=host, port=port, rank=rank, world_size=world_size)
            self.rank = rank

        def broadcast(self, tensor: Any, src: int, stream: Any) -> None:
            """There is one."""

    module.torch.accelerator.current_device_index = lambda: 0
    module.torch.cuda.current_stream = lambda *_: None
    module.NCCLWeightTransferEngine._stateless_init_process_group = staticmethod(Group)
    pack = module.pack_tensors
    module.pack_tensors = lambda post_iter_func, **others: pack(post_iter_func=lambda item: item[1], **others)
