"""The device that a run computes on: the CPU, or the one GPU that torch finds."""

from __future__ import annotations

from typing import Literal

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import RunInfo, SettledValue

KEY = "rollout.local.device"
Device = Literal["auto", "cpu", "cuda"]
LARGE = 300_000_000
"""Parameters above which an engine for GPUs plays faster by more than its start takes."""


def read_device(run_info: RunInfo) -> Device:
    """Return the device that the user chose with the engine's options; `auto` if another engine plays."""
    rollout = run_info.config.rollout
    options = rollout.get_options("local") if rollout.name in ("auto", "local") else {}
    device: Device = options.get("device", "auto")
    return device


def weigh_engine(run_info: RunInfo) -> SettledValue:
    """Return the engine that `auto` takes on a GPU, and for a model that is not small what it costs."""
    from astuner.settings.memory_estimate import ModelShape
    from astuner.settings.memory_estimate.model_file import read_model_config

    shape = ModelShape.from_config(read_model_config(run_info.config.model.path, fetch=False) or {})
    cost = None
    if shape is not None and shape.parameters > LARGE:
        cost = (
            f"it launches each operation of a model of {shape.parameters / 1e9:.1f} billion parameters by itself. vLLM has CUDA "
            "graphs and paged attention: install astuner-vllm and set rollout.name to vllm, or to local to leave it as it is"
        )
    return SettledValue(key="rollout.name", value="local", because="no engine is named", cost=cost)


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
