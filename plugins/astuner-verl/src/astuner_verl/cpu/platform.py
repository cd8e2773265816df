"""A platform `cpu` for verl: its device interface for machines without an accelerator."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any

import psutil
import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry


def _do_nothing(*_: Any, **__: Any) -> None:
    return


def _return_zero(*_: Any, **__: Any) -> int:
    return 0


def _memory(*_: Any, **__: Any) -> tuple[int, int]:
    found = psutil.virtual_memory()
    return found.available, found.total


class _CpuModule(types.ModuleType):
    """`torch.cpu`, with further functions that verl calls on `torch.cuda`."""

    def __init__(self) -> None:
        super().__init__("astuner_verl_cpu")
        ignored = ("empty_cache", "ipc_collect", "reset_peak_memory_stats", "set_per_process_memory_fraction", "manual_seed")
        for name in (*ignored, "manual_seed_all", "synchronize", "set_device"):
            setattr(self, name, _do_nothing)
        for name in ("memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved"):
            setattr(self, name, _return_zero)
        self.mem_get_info = _memory
        self.is_available = lambda: False  # verl then skips freeing an accelerator's memory

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def get_device_name(self, *_: Any) -> str:
        return "CPU"

    def get_rng_state(self, *_: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *_: Any) -> None:
        torch.set_rng_state(state)


class CpuPlatform(PlatformBase):
    """Computes with torch's CPU kernels, communicates over gloo."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _CpuModule()

    def is_available(self) -> bool:
        """Always."""
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        """Never detected: `VERL_PLATFORM` chooses it."""
        return False

    def current_device(self) -> torch.device:
        """Return the device for tensors and modules."""
        return torch.device("cpu")

    def device_count(self) -> int:
        """Return 1: all cores are one device."""
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Do nothing: the CPU runs synchronously."""

    def manual_seed(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed torch."""
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        """There are none."""

    def empty_cache(self) -> None:
        """There is none."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        """Return none."""
        return None, None

    def communication_backend_name(self) -> str:
        """Return gloo."""
        return "gloo"

    def visible_devices_envvar(self) -> str:
        """Return the variable that verl reads everywhere."""
        return "CUDA_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        """Mark nothing."""
        yield

    def profiler_start(self) -> None:
        """There is none."""

    def profiler_stop(self) -> None:
        """There is none."""

    def ray_resource_name(self) -> str:
        """Return the resource by which verl counts its workers; a cluster without GPUs offers it under this name."""
        return "GPU"

    def ray_noset_envvars(self) -> list[str]:
        """Return none."""
        return []

    def is_ipc_supported(self) -> bool:
        """Weights do not stay on a device."""
        return False

    def cudart(self) -> None:
        """There is none."""


def register_platform() -> None:
    """Make the platform known under `cpu`."""
    PlatformRegistry.register(platform="cpu")(CpuPlatform)
