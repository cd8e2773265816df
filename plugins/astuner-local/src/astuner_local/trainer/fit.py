"""How well a model predicts given tokens: cross entropy and accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from astuner.contract.protocols import Fit
from astuner_local.trainer.attention import attend_over
from astuner_local.trainer.logprobs import compute_logprobs, count_rows_at_once
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.step import MicroBatch

if TYPE_CHECKING:
    from astuner_local.forward.seam import Forward


@torch.no_grad()
def measure_fit(forward: Forward, batches: Sequence[MicroBatch], options: TrainerOptions) -> tuple[Fit, list[Tensor]]:
    """Return the means over the trained tokens of all passes, and the model's first choice for each, by pass."""
    loss, right, tokens = 0.0, 0, 0
    chosen: list[Tensor] = []
    for batch in batches:
        hidden = forward.hidden(batch.ids, batch.positions, attend_over(batch.plan, forward.scale))  # [N, d]
        wanted = hidden.index_select(0, batch.predictors)  # [R, d]
        rows_per_pass = count_rows_at_once(options, len(wanted), forward.vocab_size, wanted.device)
        first: list[Tensor] = []
        # In pieces, as in training: never all logits [R, vocab] at once.
        pieces = zip(torch.split(wanted, rows_per_pass), torch.split(batch.targets, rows_per_pass), strict=True)
        for piece, targets in pieces:
            logits = forward.logits(piece)  # [r, vocab]
            first.append(logits.argmax(-1))
            right += int((first[-1] == targets).sum())
            loss -= float(compute_logprobs(logits, targets, options).sum(dtype=torch.float64))
            tokens += len(targets)
        chosen.append(torch.cat(first))
    return Fit(loss=loss / max(1, tokens), accuracy=right / max(1, tokens), tokens=tokens), chosen
