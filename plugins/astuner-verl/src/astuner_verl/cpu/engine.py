"""verl's FSDP engine on a machine without an accelerator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import verl.workers.engine.fsdp.transformer_impl as fsdp
from torch import Tensor
from torch.distributed.tensor import DTensor
from verl.utils.fsdp_utils import merged_lora_context, normalize_peft_param_name
from verl.workers.engine import EngineRegistry, FSDPEngineWithLMHead


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class CpuEngine(FSDPEngineWithLMHead):
    """The same engine without transfers to a device."""

    def _build_fsdp_module(self, module: Any) -> Any:
        # The reference is built with pinned parameters, for which torch needs an accelerator.
        policy = fsdp.CPUOffloadPolicy
        fsdp.CPUOffloadPolicy = lambda **_: policy(pin_memory=False)
        try:
            return super()._build_fsdp_module(module)
        finally:
            fsdp.CPUOffloadPolicy = policy

    def _merged_lora_per_tensor_param(self) -> Iterator[tuple[str, Tensor]]:
        """Yield the merged weights as they are: verl rounds them to bfloat16, which no CPU rollout uses."""
        with merged_lora_context(self.module, backup_adapters=True):
            for name, value in normalize_peft_param_name(self.module.state_dict()).items():
                # A single worker holds the whole tensor, and the result must outlive the merging.
                yield name, (value.full_tensor() if isinstance(value, DTensor) else value).detach().clone()
