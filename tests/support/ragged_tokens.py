"""Made-up trained tokens of samples of several lengths, for tests of losses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from astuner.contract.protocols import TrainedTokens

LENGTHS = (9, 3, 5, 1, 7)


def make_tokens(seed: int, spread: float, lengths: Sequence[int] = LENGTHS, dtype: str = "float64") -> TrainedTokens:
    """Return tokens whose log-ratios have a standard deviation of `spread`; each sample has one advantage, of either sign."""
    import torch

    draws = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Any:
        return torch.randn(*shape, generator=draws, dtype=torch.float64)

    samples = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    old = -draw(len(samples)).abs() - 0.05
    # A probability is at most 1.
    logp = (old + spread * draw(len(samples))).clamp(max=-1e-3)
    kind = getattr(torch, dtype)
    return TrainedTokens(
        logp=logp.to(kind).requires_grad_(),
        old=old.to(kind),
        sampler=old.to(kind),
        advantages=draw(len(lengths))[samples].to(kind),
        samples=samples,
    )


def cut_tokens(tokens: TrainedTokens, kept: Any, *, renumber: bool = True) -> TrainedTokens:
    """Return those of a mask [tokens]; their samples are counted from 0 again."""
    samples = tokens.samples[kept]
    if renumber:
        samples = samples.unique(return_inverse=True)[1]
    names = ("logp", "old", "sampler", "advantages")
    return evolve(tokens, samples=samples, **{name: getattr(tokens, name)[kept] for name in names})
