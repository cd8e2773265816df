"""What the tests' stand-in for GPUs replaces, name by name, and that a GPU finds each of them in the same environment.

Where a GPU does not find it (flash-attention), the stand-in may not hide it: the plugin provides it, on both.
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(find_spec("trinity") is None, reason="Trinity is not installed")

REPLACED = {
    # No device to ask.
    "torch.cuda.get_device_capability",
    "torch.cuda.current_stream",
    "torch.accelerator.current_device_index",
    # gloo for NCCL.
    "verl.utils.device.get_nccl_backend",
    "verl.utils.distributed.initialize_global_process_group_ray",
    "NCCLWeightTransferEngine._stateless_init_process_group",
    # Weights stay on the CPU.
    "trinity.common.models.vllm_extension.pack_tensors",
    "verl.workers.engine.fsdp.transformer_impl.CPUOffloadPolicy",
    # vLLM's worker for the CPU.
    "trinity.common.models.vllm_worker.TrinityGPUWorker",
}
"""They are there without a GPU too, and callable."""
ADDED = {
    *(f"torch.cpu.{name}" for name in ("ipc_collect", "max_memory_allocated", "max_memory_reserved", "mem_get_info")),
    *(f"torch.cpu.{name}" for name in ("empty_cache", "memory_allocated", "memory_reserved", "reset_peak_memory_stats")),
    *(f"EngineRegistry.{model}.{name}.cpu" for model in ("language_model", "value_model") for name in ("fsdp", "fsdp2")),
}
"""Names for the CPU, which have the same name for CUDA."""

COMPARE = """
import importlib, json, torch, vllm.v1.worker.cpu_worker  # which empties some of torch itself
from astuner_trinity_cpu import hooks, patches
modules = {name: importlib.import_module(name) for name in hooks.PATCHED}
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine
from verl.workers.engine import EngineRegistry

def look():
    owners = {**modules, "torch.cuda": torch.cuda, "torch.cpu": torch.cpu, "torch.accelerator": torch.accelerator}
    owners["NCCLWeightTransferEngine"] = NCCLWeightTransferEngine
    found = {f"{owner}.{name}": value for owner, of in owners.items() for name, value in vars(of).items()}
    for model, backends in EngineRegistry._engines.items():
        for backend, devices in backends.items():
            found |= {f"EngineRegistry.{model}.{backend}.{device}": value for device, value in devices.items()}
    return found

before = look()
for name, patch in hooks.PATCHED.items():
    getattr(patches, patch)(modules[name])
after = look()
changed = {name for name in after if after[name] is not before.get(name)}
real = {name: before.get(name) for name in changed}
callables = {name for name, value in real.items() if callable(getattr(value, "__func__", value))}
cuda = {name: before.get(name.replace("torch.cpu.", "torch.cuda.").replace(".cpu", ".cuda")) for name in changed - callables}
print(json.dumps({"replaced": sorted(callables), "added": {name: callable(value) for name, value in cuda.items()}}))
"""


def test_each_name_that_it_replaces_is_there_for_a_gpu() -> None:
    ended = subprocess.run([sys.executable, "-c", COMPARE], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    found = json.loads(ended.stdout.splitlines()[-1])
    assert set(found["replaced"]) == REPLACED
    assert found["added"] == dict.fromkeys(ADDED, True)


def test_vllm_takes_what_trinity_sends_for_the_way_that_needs_gpus() -> None:
    """Over NCCL; the stand-in runs the other two, memory and checkpoint."""
    script = """
from vllm.config import WeightTransferConfig
from vllm.distributed.weight_transfer.nccl_engine import NCCLWeightTransferEngine as Engine
WeightTransferConfig(backend="nccl")
Engine.init_info_cls(master_address="127.0.0.1", master_port=1, rank_offset=1, world_size=5)
Engine.update_info_cls(names=["a", "b"], dtype_names=["bfloat16"] * 2, shapes=[[1, 2], [3]], packed=True)
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
