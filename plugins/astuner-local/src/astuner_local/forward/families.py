"""Which decoders `FusedForward` can read, and their modules."""

from __future__ import annotations

from typing import Any

from torch import nn

from astuner_local.forward.family_names import FAMILIES
from astuner_local.forward.linear import is_mergeable, is_trainable

_FIXED_ROPE = frozenset({"default", "linear", "llama3", "yarn"})
"""Rotary embeddings whose frequencies do not change with the length of the sequence."""


def unwrap_causal_lm(model: nn.Module) -> Any:
    """Return the transformers model under a PEFT wrapper, or the model itself."""
    base = getattr(model, "get_base_model", None)
    return base() if callable(base) and hasattr(model, "peft_config") else model


def explain_unfusable(model: nn.Module, *, trainable: bool) -> str | None:
    """Return why a model cannot be run by `FusedForward`, or None when its family and its config are on the allow-list.

    Trainable, no adapters may be merged into their base, or have biases.
    """
    base = unwrap_causal_lm(model)
    config = getattr(base, "config", None)
    family = getattr(config, "model_type", type(base).__name__)
    if family not in FAMILIES:
        return f"model_type '{family}' is not one of {', '.join(sorted(FAMILIES))}"
    reason = _config_reason(config)
    if reason:
        return reason
    for name, module in list_linears(base):
        if not is_mergeable(module) or (trainable and not is_trainable(module)):
            return f"{name} is a {type(module).__module__}.{type(module).__qualname__}, not a plain linear layer"
    if type(base.model.embed_tokens) is not nn.Embedding or type(base.lm_head) is not nn.Linear:
        return "the embedding or the output layer is wrapped"
    return None


def list_linears(base: Any) -> list[tuple[str, nn.Module]]:
    """Return (name, module) of every projection of every layer."""
    found = []
    for index, layer in enumerate(base.model.layers):
        for part, names in (("self_attn", "qkvo"), ("mlp", ("gate", "up", "down"))):
            block = getattr(layer, part)
            found += [(f"model.layers.{index}.{part}.{name}_proj", getattr(block, f"{name}_proj")) for name in names]
    return found


def _config_reason(config: Any) -> str | None:
    if getattr(config, "hidden_act", None) != "silu":
        return f"hidden_act is '{config.hidden_act}', not 'silu'"
    layer_types = getattr(config, "layer_types", None)
    if layer_types:
        other = set(layer_types) - {"full_attention"}
        if other:
            return f"layers of type {', '.join(sorted(other))}"
    elif getattr(config, "sliding_window", None) is not None:
        return f"a sliding window of {config.sliding_window} tokens"
    rope = (config.rope_parameters or {}).get("rope_type", "default")
    if rope not in _FIXED_ROPE:
        return f"rotary embedding of type '{rope}'"
    return None
