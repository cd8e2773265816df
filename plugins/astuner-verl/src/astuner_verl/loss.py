"""The loss on verl's workers: that of the other backbones, token for token, however rows are divided into passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.runs.training import LossOptions, token_terms

if TYPE_CHECKING:
    from torch import Tensor

    from astuner_verl.token_record import TokenRecord

PREFIX = "astuner/"
"""The prefix of the loss's metrics, which come back among verl's own."""
COMPUTED = "computed_tokens"
"""In the data of a pass: the tokens that the model computed, if rows share some."""


@frozen(kw_only=True)
class VerlLossOptions(LossOptions):
    """Options of a run's loss."""

    entropy_coeff: float = 0.0
    """Weight of the entropy, which is subtracted from the loss."""


def compute_weighed_loss(
    options: VerlLossOptions, model_output: Any, data: Any, dp_group: Any = None, *, record: TokenRecord | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """Return the loss of a pass, and sums over its tokens as metrics.

    The loss of each token (`astuner.runs.training.losses`) times the factor (`shares`) that core computed from the whole
    mini-batch: the sum over passes is the loss, so neither passes nor padding change it. Workers average their gradients, so
    it is multiplied
    by their number. Without `old_log_probs` the weights are those of the step's start, and the ratio is 1.
    `record` gets the values of the trained tokens.
    """
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.utils.metric import AggregationType, Metric
    from verl.workers.utils.padding import no_padding_2_padding

    workers = int(data["dp_size"])
    logp = no_padding_2_padding(model_output["log_probs"], data)  # [rows, longest response]
    entropy = model_output.get("entropy")
    now = logp.detach()
    mask, sampler, advantages, shares = (
        _pad(data[name], now).to(dtype)
        for name, dtype in (
            ("response_mask", torch.bool),
            ("rollout_log_probs", now.dtype),
            ("advantages", now.dtype),
            ("shares", now.dtype),
        )
    )
    reference = torch.where(mask, _pad(data["ref_log_prob"], now), now) if options.kl_loss_coef > 0 else None
    terms = token_terms(
        torch.where(mask, logp, now),
        old=torch.where(mask, _pad(data["old_log_probs"], now), now) if "old_log_probs" in data else now,
        sampler=torch.where(mask, sampler, now),
        advantages=advantages,
        shares=shares,
        options=options,
        reference=reference,
    )
    loss = terms.loss
    spread = no_padding_2_padding(entropy, data) if entropy is not None else torch.zeros_like(now)
    if record is not None:
        record.add(data, mask, now, terms, None if entropy is None else spread, reference)
    if options.entropy_coeff:
        loss = loss - options.entropy_coeff * spread
    total = (loss * shares * mask).sum() * workers

    live = mask & (shares > 0)
    measured = {"tokens": live, "entropy": spread.detach(), **terms.measured}
    # verl averages the sums of workers.
    metrics = {
        f"{PREFIX}{name}": Metric(value=float((value * live).sum()) * workers, aggregation=AggregationType.SUM)
        for name, value in measured.items()
    }
    computed = tu.get_non_tensor_data(data, COMPUTED, default=data["input_ids"].values().numel())
    metrics[f"{PREFIX}computed"] = Metric(value=float(computed) * workers, aggregation=AggregationType.SUM)
    metrics[f"{PREFIX}abs_max"] = Metric(value=float((terms.drift.abs() * live).max()), aggregation=AggregationType.MAX)
    return total, metrics


def _pad(nested: Tensor, like: Tensor) -> Tensor:
    import torch

    if not nested.is_nested:
        return nested
    padded: Tensor = torch.nested.to_padded_tensor(nested, padding=0.0, output_size=like.shape)
    return padded.to(like.device)
