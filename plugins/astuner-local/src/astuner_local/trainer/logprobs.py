"""Log-probabilities of sampled tokens, in the distribution that they were sampled from.

The sampler divides logits by the temperature and then, with top_k or top_p below full, leaves out all but the likeliest tokens
and renormalises. The same is done here on the trainer's own logits, by the engine's rule (`kept`). If rounding or an earlier
mini-batch has moved a sampled token out of that set, it is put back, so that its log-probability is finite. A reference is
renormalised over its own set in the same way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from astuner_local.trainer.options import TrainerOptions

# exp() of it is exactly 0 in float32, and 0 times it is 0, which 0 * -inf is not.
_LEFT_OUT = -1e9


class _TokenLogprobs(torch.autograd.Function):
    """Log softmax at one token per row, with the entropy for one more sweep, and a backward pass without a copy."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        logp = torch.log_softmax(logits, -1)
        chosen = logp.gather(1, targets[:, None])[:, 0]
        p = logp.exp()
        entropy = logp.mul_(p).sum(-1).neg_()
        ctx.save_for_backward(p, targets)
        ctx.mark_non_differentiable(entropy)
        return chosen, entropy

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        p, targets = ctx.saved_tensors
        grad = grads[0][:, None]
        # d log p(t) / d logits = onehot(t) - p, written over p: this node is differentiated once.
        return p.mul_(-grad).scatter_add_(1, targets[:, None], grad), None


def compute_logprobs(logits: Tensor, targets: Tensor, options: TrainerOptions) -> tuple[Tensor, Tensor]:
    """Return the log-probabilities [R] of targets [R], differentiable once, and the entropies [R], from logits [R, vocab]."""
    if options.temperature != 1:
        logits = logits / options.temperature
    if options.truncated:
        left_out = ~find_kept(logits.detach(), options).scatter_(1, targets[:, None], True)
        logits = logits.masked_fill(left_out, _LEFT_OUT)
    chosen, entropy = _TokenLogprobs.apply(logits, targets)  # type: ignore[no-untyped-call]  # torch ships it without types
    return chosen, entropy


def find_kept(logits: Tensor, options: TrainerOptions) -> Tensor:
    """Return which tokens [R, vocab] the sampler chooses from, given logits [R, vocab] with the temperature applied.

    The `top_k` likeliest, then the fewest of these that hold `top_p` of their probability; ties go to the smaller id.
    """
    ordered, order = logits.sort(dim=-1, descending=True, stable=True)
    rank = torch.arange(logits.shape[1], device=logits.device)
    keep = rank < (options.top_k if options.top_k > 0 else logits.shape[1])
    p = ordered.masked_fill(~keep, _LEFT_OUT).softmax(-1).double()
    keep = keep & ((p.cumsum(-1) - p < options.top_p) | (rank == 0))
    return torch.zeros_like(keep).scatter_(1, order, keep)
