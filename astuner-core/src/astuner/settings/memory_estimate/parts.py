"""The parts of a memory plan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from attrs import frozen

from astuner.contract.errors import Problem
from astuner.settings.memory_estimate.model_shape import ModelShape

Phase = Literal["playing", "sending", "training"]
"""Episodes are played; new weights travel to the engines; the model is updated."""

PHASES: tuple[Phase, ...] = ("playing", "sending", "training")
MAIN_MEMORY = -1
"""In place of a GPU: the memory of the machine."""
GIB = 1 << 30


@frozen(kw_only=True)
class MemoryPart:
    """What is held for one purpose, on each of some GPUs."""

    name: str
    """For people: `gradients`, `KV cache`."""
    bytes: int
    gpus: Sequence[int]
    """Numbers of GPUs of the run, counted over all nodes; `MAIN_MEMORY` is the machine's own."""
    phases: Sequence[Phase] = PHASES
    """When it is held."""
    because: str = ""
    """How it was computed, in a few words."""
    keys: Sequence[str] = ()
    """Settings that make it smaller, each with a value or a direction: `rollout.max_model_len lower`."""


@frozen(kw_only=True)
class MemoryPlan:
    """What a component holds."""

    parts: Sequence[MemoryPart] = ()
    problems: Sequence[Problem] = ()
    """What cannot fit within its own share, such as a model in an engine that may use too little of the card."""


@frozen(kw_only=True)
class Hardware:
    """The machines that a plan is for."""

    gpus: int
    """Of each node; 0 for a machine without any."""
    gpu_bytes: int | None = None
    """Memory of the smallest; None if unknown."""
    main_bytes: int | None = None
    """Memory of the machine; None if unknown."""
    here: bool = True
    """Whether it is this machine, and not what the user plans for."""


@frozen(kw_only=True)
class MemoryQuestion:
    """What a component is asked to plan for."""

    shape: ModelShape
    hardware: Hardware
    lora_rank: int
    """0 if all weights are trained."""
    target_modules: str | Sequence[str]
    """With adapters: names of projections, or `all-linear`."""

    @property
    def adapter_parameters(self) -> int:
        """Weights of the adapters."""
        return self.shape.count_adapter_parameters(self.lora_rank, self.target_modules)
