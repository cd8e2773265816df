"""Log-probabilities of sampled tokens, in the distribution that they were sampled from.

The sampler divides logits by the temperature and then, with top_k or top_p below full, leaves out all but the likeliest tokens
and renormalises. The same is done here on the trainer's own logits, by the engine's rule (`kept`). If rounding or an earlier
mini-batch has moved a sampled token out of that set, it is put back, so that its log-probability is finite. A reference is
renormalised over its own set in the same way.
"""

from __future__ import annotations

import torch
from attrs import frozen
from torch import Tensor

from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.pass_size import count_logits

# exp() of it is exactly 0 in float32, and 0 times it is 0, which 0 * -inf is not.
_LEFT_OUT = -1e9


def count_rows_at_once(options: TrainerOptions, rows: int, vocab_size: int, device: torch.device) -> int:
    """Return of how many of some rows the logits are held at once, so that all pieces are about as large."""
    most = max(1, count_logits(options.logits_per_pass, cuda=device.type == "cuda") // vocab_size)
    pieces = max(1, -(-rows // most))
    return max(1, -(-rows // pieces))


@frozen(eq=False)
class TokenScores:
    """What a distribution over the vocabulary says of one token per row, and its gradient."""

    logprobs: Tensor
    """[R]"""
    entropy: Tensor
    """[R]"""
    _targets: Tensor
    _shifted: Tensor
    """[R, vocab] logits of the distribution, the largest of each row 0."""
    _weights: Tensor
    """[R, vocab] probabilities, times `_sums`."""
    _sums: Tensor
    _temperature: float

    def pull(self, grad: Tensor, of_entropy: Tensor | None = None) -> Tensor:
        """Return the gradient at the logits [R, vocab] of that at the log-probabilities [R], and at the entropies [R].

        May be called once.
        """
        grad = grad / self._temperature
        scale = (grad / self._sums).neg_()[:, None]
        if of_entropy is None:
            # d log p(t) / d logits = onehot(t) - p, written over p.
            found = self._weights.mul_(scale)
        else:
            # d H / d logits = -p (log p + H); what is left out has p = 0.
            per_weight = (of_entropy / self._temperature / self._sums)[:, None]
            own = self._shifted.add_((self.entropy - self._sums.log())[:, None]).mul_(per_weight)
            found = self._weights.mul_(scale - own)
        return found.scatter_add_(1, self._targets[:, None], grad[:, None])


@torch.no_grad()
def score_tokens(logits: Tensor, targets: Tensor, options: TrainerOptions) -> TokenScores:
    """Return what logits [R, vocab], which are overwritten, say of targets [R]."""
    shifted, chosen = _shift(logits, targets, options)
    weights = shifted.exp()
    sums = weights.sum(-1)
    logs = sums.log()
    entropy = logs - torch.bmm(weights[:, None], shifted[..., None])[:, 0, 0].div_(sums)
    return TokenScores(chosen - logs, entropy, targets, shifted, weights, sums, options.temperature)


@torch.no_grad()
def compute_logprobs(logits: Tensor, targets: Tensor, options: TrainerOptions) -> Tensor:
    """Return the log-probabilities [R] of targets [R] from logits [R, vocab], which are overwritten."""
    shifted, chosen = _shift(logits, targets, options)
    return chosen - shifted.exp_().sum(-1).log()


def _shift(logits: Tensor, targets: Tensor, options: TrainerOptions) -> tuple[Tensor, Tensor]:
    """Return the logits of the sampled distribution, the largest of each row 0, and those of the targets."""
    if options.temperature != 1:
        logits.div_(options.temperature)
    if options.truncated:
        logits.masked_fill_(~find_kept(logits, options).scatter_(1, targets[:, None], True), _LEFT_OUT)
    logits.sub_(logits.amax(-1, keepdim=True))
    return logits, logits.gather(1, targets[:, None])[:, 0]


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
