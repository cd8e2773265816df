"""verl's FSDP engine on a machine without an accelerator."""

from __future__ import annotations

from typing import Any

import verl.workers.engine.fsdp.transformer_impl as fsdp
from verl.workers.engine import EngineRegistry

from astuner_verl.shared_prefixes.engine import SharedPrefixEngine


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuEngine(SharedPrefixEngine):
    """The same engine without transfers to a device."""

    def _build_fsdp_module(self, module: Any) -> Any:
        # The reference is built with pinned parameters, for which torch needs an accelerator.
        policy = fsdp.CPUOffloadPolicy
        fsdp.CPUOffloadPolicy = lambda **_: policy(pin_memory=False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            fsdp.CPUOffloadPolicy = policy
