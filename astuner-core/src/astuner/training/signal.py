"""Metrics of the rows of a step, under the same names for every backbone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from astuner.training.minibatches import Row

TOKEN_SUMS = ("tokens", "loss/policy", "loss/kl", "kl", "ratio", "exp_abs", "entropy", "clip/low", "clip/high")
"""The sums of a pass over its tokens: their number, both parts of the loss with their factors, the divergence (k3), the ratio of
trainer and sampler and e^|log ratio|, the entropy, and how many were clipped."""


class WeighedRow(Row, Protocol):
    """A row with the advantage of its tokens."""

    @property
    def advantage(self) -> float:
        """The advantage of the episode's agent in its group."""


def compute_update_metrics(sums: Mapping[str, float], norms: Sequence[float], parts: int) -> dict[str, float]:
    """Turn sums over the trained tokens of a step into metrics; empty if there was nothing to train.

    `sums` has the names of `TOKEN_SUMS`, `entropy` only where it was computed, and `abs_max`, a maximum. The losses are
    those of `parts` mini-batches, each normalised on its own.
    """
    tokens = sums.get("tokens", 0.0)
    if not tokens:
        return {}
    finite = [norm for norm in norms if math.isfinite(norm)]
    return {
        **({"grad/norm": sum(finite) / len(finite)} if finite else {}),
        "loss/policy": sums["loss/policy"] / parts,
        "loss/kl": sums["loss/kl"] / parts,
        "clip/low": sums["clip/low"] / tokens,
        "clip/high": sums["clip/high"] / tokens,
        "mismatch/ratio_mean": sums["ratio"] / tokens,
        "mismatch/exp_abs_mean": sums["exp_abs"] / tokens,
        "mismatch/abs_max": sums["abs_max"],
        **({"entropy/mean": sums["entropy"] / tokens} if "entropy" in sums else {}),
    }


def has_gradient(row: WeighedRow, *, kl_in_loss: bool) -> bool:
    """Whether a row changes the weights: it has trained tokens, and an advantage or a divergence in the loss."""
    return row.sample.trained > 0 and (row.advantage != 0 or kl_in_loss)


def compute_signal_metrics(rows: Sequence[WeighedRow], norms: Sequence[float], *, kl_in_loss: bool) -> dict[str, float]:
    """Count what there was to train; `norms` are those of the gradients, one per optimizer step."""
    live = [row for row in rows if has_gradient(row, kl_in_loss=kl_in_loss)]
    return {
        "signal/rows": len(rows),
        "signal/rows_without_tokens": sum(row.sample.trained == 0 for row in rows),
        "signal/rows_zero_advantage": sum(row.sample.trained > 0 and row.advantage == 0 for row in rows),
        "signal/rows_trained": len(live),
        "signal/tokens": sum(row.sample.trained for row in rows),
        "signal/nothing_to_train": float(not live),
        "signal/updates": sum(map(math.isfinite, norms)),
        "signal/updates_not_finite": sum(not math.isfinite(norm) for norm in norms),
        "tokens/trained": sum(row.sample.trained for row in live),
    }
