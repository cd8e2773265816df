"""The device that a run computes on: the CPU, or the one GPU that torch finds."""

from __future__ import annotations

from typing import Literal

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import RunInfo

KEY = "rollout.local.device"
Device = Literal["auto", "cpu", "cuda"]


def read_device(run_info: RunInfo) -> Device:
    """Return the device that the user chose with the engine's options; `auto` if another engine plays."""
    rollout = run_info.config.rollout
    options = rollout.get_options("local") if rollout.name in ("auto", "local") else {}
    device: Device = options.get("device", "auto")
    return device


def choose_device(device: Device) -> Literal["cpu", "cuda"]:
    """Return where tensors go. Raises ConfigError if the GPU is asked for, and torch finds none."""
    import torch

    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        built = "is built without CUDA" if torch.version.cuda is None else f"for CUDA {torch.version.cuda} finds no GPU or driver"
        message = f"is 'cuda', and torch {torch.__version__} {built}. Set it to auto or cpu, or mend that"
        raise ConfigError([Problem(key=f"astuner.{KEY}", message=message)])
    return "cuda"
