"""Chooses how to run a model, and checks the choice against the model's own forward pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from astuner_local.forward.families import explain_unfusable, unwrap_causal_lm
from astuner_local.forward.fused import FusedForward
from astuner_local.forward.transformers_forward import TransformersForward, UnsupportedModel

if TYPE_CHECKING:
    from astuner_local.compiled.kernels import Kernels
    from astuner_local.forward.seam import Attend, Forward

_LENGTHS = (7, 12)
_EXACT, _ROUNDED = 1e-4, 5e-2


def make_forward(
    model: nn.Module, *, trainable: bool, dtype: torch.dtype | None = None, kernels: Kernels | None = None
) -> Forward:
    """Return the fastest forward of a model that agrees with the model's own.

    `FusedForward` for the families it knows (trainable: without adapters), else `TransformersForward`. Each is compared on two
    short sequences packed into one, to 1e-4 relative in float32. Raises UnsupportedModel when neither agrees: a sliding window,
    attention sinks, convolutions and state-space layers cannot be packed.
    """
    reason = explain_unfusable(model, trainable=trainable)
    if reason is None:
        fused = FusedForward(model, dtype, trainable=trainable, kernels=kernels)
        error = disagreement(fused, model)
        if error <= tolerance(fused.dtype, model) and _reads_right(fused, model):
            return fused
        reason = "its fused forward differs from its own"
    general = TransformersForward(model, dtype, trainable=trainable)
    error = disagreement(general, model)
    if error > tolerance(general.dtype, model):
        raise UnsupportedModel(
            f"{type(unwrap_causal_lm(model)).__name__} cannot be run on packed tokens: the result is {error:.1e} off the "
            f"model's own ({reason}). Serve it with another engine (`rollout.name: vllm`), and train it without packing."
        )
    return general


def _reads_right(fused: FusedForward, model: nn.Module) -> bool:
    """Whether a rounding forward agrees exactly in the parameters' own precision: rounding hides a wrong frequency."""
    own = parameter_dtype(model)
    if fused.dtype == own:
        return True
    in_place = explain_unfusable(model, trainable=True) is None
    return disagreement(FusedForward(model, own, trainable=in_place), model) <= tolerance(own, model)


def parameter_dtype(model: nn.Module) -> torch.dtype:
    """Return the dtype in which a model keeps its weights."""
    dtype: torch.dtype = next(unwrap_causal_lm(model).parameters()).dtype
    return dtype


def tolerance(dtype: torch.dtype, model: nn.Module) -> float:
    """Return the relative difference that rounding alone explains."""
    return _EXACT if dtype == parameter_dtype(model) == torch.float32 else _ROUNDED


@torch.no_grad()
def disagreement(forward: Forward, model: nn.Module) -> float:
    """Return the largest difference of log-probabilities to the model's own forward pass, relative to the largest of them."""
    device = next(model.parameters()).device
    sequences = [torch.arange(1, length + 1) * 7919 % forward.vocab_size for length in _LENGTHS]
    training = model.training
    model.eval()
    try:
        own = [model(input_ids=ids[None].to(device), use_cache=False).logits[0].float().log_softmax(-1) for ids in sequences]
        positions = torch.cat([torch.arange(length) for length in _LENGTHS]).to(device)
        hidden = forward.hidden(torch.cat(sequences).to(device), positions, make_separate_attend(_LENGTHS, forward.scale))
        packed = forward.logits(hidden).log_softmax(-1)
    finally:
        model.train(training)
    expected = torch.cat(own)
    return float((packed - expected).abs().max() / expected.abs().max())


def make_separate_attend(lengths: tuple[int, ...], scale: float) -> Attend:
    """Return an `attend` under which sequences of these lengths, laid end to end, each see themselves causally."""

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        groups = q.shape[1] // k.shape[1]
        k, v = (x.repeat_interleave(groups, 1) for x in (k, v))
        by_sequence = (torch.split(x.transpose(0, 1).unsqueeze(0), list(lengths), 2) for x in (q, k, v))
        seen = [
            functional.scaled_dot_product_attention(one_q, one_k, one_v, is_causal=True, scale=scale)
            for one_q, one_k, one_v in zip(*by_sequence, strict=True)
        ]
        return torch.cat(seen, 2)[0].transpose(0, 1)

    return attend
