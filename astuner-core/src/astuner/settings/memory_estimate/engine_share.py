"""Engines that reserve a share of a GPU for weights and KV cache, as most inference servers do."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from astuner.contract.errors import Problem
from astuner.settings.memory_estimate.model_shape import ModelShape
from astuner.settings.memory_estimate.parts import GIB, Hardware, MemoryPart, MemoryPlan, Phase


@frozen(kw_only=True)
class EngineShare:
    """What an engine reserves."""

    gpus: Sequence[int]
    share: float
    """Of each card."""
    share_key: str
    """The key that sets it."""
    spread: int
    """GPUs over which the weights are spread."""
    item: int
    """Bytes of a number."""
    max_model_len: int
    phases: Sequence[Phase]
    adapters: int = 0
    """Parameters of LoRA adapters."""


def plan_engine_share(shape: ModelShape, hardware: Hardware, engine: EngineShare) -> MemoryPlan:
    """Return the weights and the cache of an engine on each of its GPUs."""
    share, spread, item, max_model_len = engine.share, engine.spread, engine.item, engine.max_model_len
    share_key, phases = engine.share_key, engine.phases
    if not hardware.gpu_bytes:
        return MemoryPlan()
    weights = (shape.parameters + engine.adapters) * item // spread
    token = shape.count_kv_bytes(item) // min(spread, shape.kv_heads)
    reserved = int(share * hardware.gpu_bytes)
    room = max(0, reserved - weights) // token
    problems = []
    if room < max_model_len:
        needed = (weights + token * max_model_len) / hardware.gpu_bytes
        remedy = f"Set it to {needed + 0.05:.2f} or more" if needed < 0.9 else "Set rollout.tensor_model_parallel_size higher"
        message = (
            f"{share} of a GPU of {hardware.gpu_bytes / GIB:.1f} GiB is {reserved / GIB:.1f} GiB, and an engine needs "
            f"{weights / GIB:.1f} GiB for weights and {token * max_model_len / GIB:.1f} GiB for the keys and values of one "
            f"context of {max_model_len} tokens (rollout.max_model_len). {remedy}, or lower rollout.max_model_len."
        )
        problems.append(Problem(key=share_key, message=message))
    smaller = (f"{share_key} lower", "rollout.tensor_model_parallel_size higher")
    parts = (
        MemoryPart(
            name="engine's weights",
            bytes=weights,
            gpus=engine.gpus,
            phases=phases,
            because=f"{item} bytes for each of {shape.parameters / 1e9:.2f} billion parameters"
            + (f" over {spread} GPUs" if spread > 1 else ""),
            keys=smaller[1:],
        ),
        MemoryPart(
            name="KV cache",
            bytes=max(reserved - weights, token * max_model_len),
            gpus=engine.gpus,
            phases=tuple(phase for phase in phases if phase != "sending" or "training" in phases),
            because=f"room for {room:,} tokens: the rest of {share:g} of the card",
            keys=smaller[:1],
        ),
    )
    return MemoryPlan(parts=parts, problems=problems)
