"""The effective weight of a linear layer, with or without LoRA adapters around it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


def is_plain(module: nn.Module) -> bool:
    """Whether a module is a bare linear layer."""
    return type(module) is nn.Linear


def is_mergeable(module: nn.Module) -> bool:
    """Whether `merge_weight` can read a module: a linear layer, bare or with ordinary LoRA adapters (no DoRA, no variants)."""
    if is_plain(module):
        return True
    from peft.tuners.lora import Linear

    return isinstance(module, Linear) and type(module.base_layer) is nn.Linear and not module.lora_variant


def is_trainable(module: Any) -> bool:
    """Whether a mergeable module computes W·x + scaling·B·A·x as it is: nothing merged, no bias of an adapter."""
    return is_plain(module) or not (module.merged_adapters or any(layer.bias is not None for layer in module.lora_B.values()))


def merge_weight(module: nn.Module) -> Tensor:
    """Return W, or W + scaling·B·A summed over the active LoRA adapters, in the wider of their precisions."""
    if is_plain(module):
        assert isinstance(module, nn.Linear)
        return module.weight.detach()
    from peft.tuners.lora import Linear

    assert isinstance(module, Linear)
    base = module.base_layer
    assert isinstance(base, nn.Linear)
    weight = base.weight.detach()
    if module.disable_adapters:
        return weight
    with torch.no_grad():
        for adapter in module.active_adapters:
            if adapter in module.lora_A and adapter not in module.merged_adapters:
                weight = weight + module.get_delta_weight(adapter)
    return weight


def read_bias(module: nn.Module) -> Tensor | None:
    """Return the bias of a linear layer, under whatever adapters it has."""
    base = module if is_plain(module) else module.base_layer
    assert isinstance(base, nn.Linear)
    return base.bias
