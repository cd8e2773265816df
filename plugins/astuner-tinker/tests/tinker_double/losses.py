"""The rows of a call, and the losses of their tokens, with the formulas of the SDK's documentation."""

from __future__ import annotations

from collections.abc import Mapping

import tinker
import torch
from attrs import frozen
from tinker.types import Datum
from torch import Tensor

from tinker_double.store import make_error

OF_POLICY = {"target_tokens", "logprobs", "advantages"}
INPUTS = {"cross_entropy": {"target_tokens"}, "importance_sampling": OF_POLICY, "ppo": OF_POLICY, "cispo": OF_POLICY}
"""What each loss needs; `weights` may be there too."""
CLIP = {"clip_low_threshold": 0.8, "clip_high_threshold": 1.2}
"""Bounds of the ratio if a call has none."""


@frozen(kw_only=True, eq=False)
class Row:
    """A datum that was checked."""

    ids: list[int]
    inputs: Mapping[str, Tensor]
    """[T] each"""
    weights: Tensor
    """[T]"""


def read_row(datum: Datum, loss: str, *, refuse_weights: bool) -> Row:
    """Return the row of a datum; raises BadRequestError for inputs that the loss does not take."""
    ids = datum.model_input.to_ints()
    inputs = {name: value.to_torch() for name, value in datum.loss_fn_inputs.items()}
    wrong = {name for name, value in inputs.items() if value.shape != (len(ids),)}
    unknown, missing = set(inputs) - INPUTS[loss] - {"weights"}, INPUTS[loss] - set(inputs)
    if refuse_weights and loss != "cross_entropy" and "weights" in inputs:
        unknown.add("weights")
    if unknown or missing or wrong:
        faults = f"unknown {sorted(unknown)}, missing {sorted(missing)}, not of length {len(ids)} {sorted(wrong)}"
        raise make_error(tinker.BadRequestError, f"loss_fn_inputs of {loss}: {faults}")
    return Row(ids=ids, inputs=inputs, weights=inputs.get("weights", torch.ones(len(ids))))


def check_loss(loss: str, config: Mapping[str, float] | None) -> None:
    """Raise BadRequestError for a loss or a setting that does not exist."""
    allowed = set(CLIP) if loss in ("ppo", "cispo") else set()
    if loss not in INPUTS or set(config or {}) - allowed:
        raise make_error(tinker.BadRequestError, f"loss {loss!r} with {dict(config or {})} is not supported")


def compute_losses(loss: str, logprobs: Tensor, row: Row, config: Mapping[str, float] | None) -> Tensor:
    """Return the weighted loss of each token of a row, [T]."""
    if loss == "cross_entropy":
        return -logprobs * row.weights
    ratio, advantages = (logprobs - row.inputs["logprobs"]).exp(), row.inputs["advantages"]
    bounds = {**CLIP, **(config or {})}
    clipped = ratio.clamp(bounds["clip_low_threshold"], bounds["clip_high_threshold"])
    match loss:
        case "ppo":
            gains = torch.minimum(ratio * advantages, clipped * advantages)
        case "cispo":
            gains = clipped.detach() * logprobs * advantages
        case _:
            gains = ratio * advantages
    return -gains * row.weights
