"""What became of the rows of a step, under the same names for every backbone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from astuner.training.minibatches import Row


class WeighedRow(Row, Protocol):
    """A row with the advantage of its tokens."""

    @property
    def advantage(self) -> float:
        """Of the episode's agent in its group."""
        ...


def has_gradient(row: WeighedRow, *, kl_in_loss: bool) -> bool:
    """Whether a row moves the weights: it has trained tokens, and an advantage or a divergence in the loss."""
    return row.sample.trained > 0 and (row.advantage != 0 or kl_in_loss)


def signal_metrics(rows: Sequence[WeighedRow], norms: Sequence[float], *, kl_in_loss: bool) -> dict[str, float]:
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
