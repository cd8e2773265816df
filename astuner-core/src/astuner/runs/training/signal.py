"""Metrics of the rows of a step, under the same names for every backbone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from astuner.episodes.judging.advantages import WeightedSample

TOKEN_SUMS = ("tokens", "loss/policy", "loss/kl", "kl", "ratio", "exp_abs", "entropy", "clip/low", "clip/high", "clip/dual")
"""The sums of a pass over its tokens: their number, both parts of the loss with their factors, the divergence (k3), the ratio of
trainer and sampler and e^|log ratio|, the entropy, and how many were clipped. A correction adds `CORRECTION_SUMS`, and
imitation `loss/likelihood`."""

CORRECTION_SUMS = ("correction/weight", "correction/bounded", "correction/rejected")
"""The importance weights, and how many tokens had one beyond its bounds, or were rejected; each only where it is computed."""


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
        **({"loss/likelihood": sums["loss/likelihood"] / parts} if "loss/likelihood" in sums else {}),
        "clip/low": sums["clip/low"] / tokens,
        "clip/high": sums["clip/high"] / tokens,
        "clip/dual": sums["clip/dual"] / tokens,
        "mismatch/ratio_mean": sums["ratio"] / tokens,
        "mismatch/exp_abs_mean": sums["exp_abs"] / tokens,
        "mismatch/abs_max": sums["abs_max"],
        **({"entropy/mean": sums["entropy"] / tokens} if "entropy" in sums else {}),
        **{f"{name}_mean": sums[name] / tokens for name in CORRECTION_SUMS if name in sums},
    }


AnyRow = TypeVar("AnyRow", bound=WeightedSample)


def select_live_rows(part: Sequence[AnyRow], *, every_row: bool) -> list[AnyRow]:
    """Return the rows of a mini-batch that have a gradient; none if the estimator weighs no token of it: then no weight moves.

    `every_row` says that a divergence or an entropy in the loss gives rows without an advantage a gradient too. Alone they make
    no optimizer step: AdamW divides a gradient by its own size, so even the rounding of a divergence would become steps of the
    size of the learning rate.
    """
    if not any(row.live_tokens for row in part):
        return []
    return [row for row in part if row.live_tokens or (every_row and row.sample.trained)]


def compute_signal_metrics(
    rows: Sequence[WeightedSample], live: Sequence[WeightedSample], norms: Sequence[float]
) -> dict[str, float]:
    """Count what there was to train: all rows, those with a gradient, and the norms of the gradients, one per optimizer step."""
    return {
        "signal/rows": len(rows),
        "signal/rows_without_tokens": sum(row.sample.trained == 0 for row in rows),
        "signal/rows_zero_advantage": sum(row.sample.trained > 0 and row.live_tokens == 0 for row in rows),
        "signal/rows_trained": len(live),
        "signal/tokens": sum(row.sample.trained for row in rows),
        "signal/nothing_to_train": float(not live),
        "signal/updates": sum(map(math.isfinite, norms)),
        "signal/updates_not_finite": sum(not math.isfinite(norm) for norm in norms),
        "tokens/trained": sum(row.sample.trained for row in live),
    }
