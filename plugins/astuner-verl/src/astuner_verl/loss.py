"""The loss on verl's workers: that of the other backbones, token for token, however rows are divided into passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from astuner.contract.protocols import TrainedTokens
from astuner.runs.training import LossOptions, TokenStreams, token_terms
from astuner_verl.rows import STREAMS
from astuner_verl.token_record import NUMBERS

if TYPE_CHECKING:
    from torch import Tensor

    from astuner_verl.token_record import TokenRecord

PREFIX = "astuner/"
"""The prefix of the loss's metrics, which come back among verl's own."""
COMPUTED = "computed_tokens"
"""In the data of a pass: the tokens that the model computed, if rows share some."""
ENTROPY_COEFF = "entropy_coeff"
"""In the data of a pass: the weight of the entropy in this step, if it is not that of the options."""


def compute_weighed_loss(
    options: LossOptions, model_output: Any, data: Any, dp_group: Any = None, *, record: TokenRecord | None = None
) -> tuple[Tensor, dict[str, Any]]:
    """Return the loss of a pass, and sums over its tokens as metrics.

    The loss of each token (`astuner.runs.training.losses`) times the factor (`shares`) that core computed from the whole
    mini-batch: the sum over passes is the loss, so neither passes nor padding change it. Workers average their gradients, so
    it is multiplied by their number. Without `old_log_probs` the weights are those of the step's start, and the ratio is 1.
    `record` gets the values of the trained tokens.
    """
    import torch
    from verl.utils import tensordict_utils as tu
    from verl.utils.metric import AggregationType, Metric
    from verl.workers.utils.padding import no_padding_2_padding

    workers = int(data["dp_size"])
    padded = no_padding_2_padding(model_output["log_probs"], data)  # [rows, longest response]
    mask = kept = _pad(data["response_mask"], padded).bool()
    if not mask.any():  # padding alone: a loss need not handle no token, so it gets one that counts 0
        kept = torch.zeros_like(mask)
        kept[0, 0] = True
    places = kept.nonzero()[:, 0]
    rows, samples = places.unique_consecutive(return_inverse=True)  # type: ignore[no-untyped-call]  # torch ships it so
    logp = padded[kept]  # [tokens], as all from here on
    now = logp.detach()

    def take(name: str) -> Tensor:
        return torch.where(mask[kept], _pad(data[name], padded)[kept].to(now.dtype), now)

    reference = take("ref_log_prob") if options.kl_loss_coef > 0 else None
    advantages, shares = (_pad(data[name], padded)[kept].to(now.dtype) for name in ("advantages", "shares"))
    tokens = TrainedTokens(
        logp=now,
        old=take("old_log_probs") if "old_log_probs" in data else now,
        sampler=take("rollout_log_probs"),
        advantages=advantages,
        samples=samples,
    )
    streams = None
    if STREAMS[0] in data:
        streams = TokenStreams(**{name: _pad(data[name], padded)[kept].to(now.dtype) for name in STREAMS})
    terms = token_terms(tokens, shares=shares, options=options, reference=reference, streams=streams)
    loss = terms.add_up(logp, shares)
    entropy = model_output.get("entropy")
    entropy = None if entropy is None else no_padding_2_padding(entropy, data)[kept].to(now.dtype)
    if record is not None:
        record.add(data[NUMBERS].to(rows.device)[rows], tokens, terms, entropy)
    weight = float(tu.get_non_tensor_data(data, ENTROPY_COEFF, default=options.entropy_coeff))
    if weight and entropy is not None:
        loss = loss - weight * entropy.dot(shares)

    live = shares > 0
    spread = torch.zeros_like(now) if entropy is None else entropy.detach()
    measured = {"tokens": live, "entropy": spread, **terms.measured}
    # verl averages the sums of workers.
    metrics = {
        f"{PREFIX}{name}": Metric(value=float((value * live).sum()) * workers, aggregation=AggregationType.SUM)
        for name, value in measured.items()
    }
    computed = tu.get_non_tensor_data(data, COMPUTED, default=data["input_ids"].values().numel())
    metrics[f"{PREFIX}computed"] = Metric(value=float(computed) * workers, aggregation=AggregationType.SUM)
    metrics[f"{PREFIX}abs_max"] = Metric(value=float((terms.drift.abs() * live).max()), aggregation=AggregationType.MAX)
    return loss * workers, metrics


def _pad(nested: Tensor, like: Tensor) -> Tensor:
    import torch

    if not nested.is_nested:
        return nested
    padded: Tensor = torch.nested.to_padded_tensor(nested, padding=0.0, output_size=like.shape)
    return padded.to(like.device)
