"""Sampling the next tokens of a batch of arbitrary requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

GREEDY = 1e-5
"""Lower temperatures count as 0."""


@frozen(kw_only=True)
class SamplingSpec:
    """The distribution of one request, and its end."""

    temperature: float
    top_p: float
    top_k: int
    max_tokens: int
    stop: frozenset[int]
    seed: int | None

    @classmethod
    def from_params(cls, params: dict[str, Any], room: int) -> SamplingSpec:
        """Read verl's sampling parameters; `room` bounds the answer."""
        return cls(
            temperature=float(params.get("temperature", 1.0)),
            top_p=float(params.get("top_p", 1.0)),
            top_k=int(params.get("top_k", -1)),
            max_tokens=max(1, min(room, int(params.get("max_tokens") or room))),
            stop=frozenset(params.get("stop_token_ids") or ()),
            seed=params.get("seed"),
        )

    def uniforms(self) -> Tensor:
        """Return the random numbers of the request, one per token: the same for the same seed, whatever the rest of the batch."""
        generator = torch.Generator()
        if self.seed is None:
            generator.seed()
        else:
            generator.manual_seed(self.seed % 2**63)
        return torch.rand(self.max_tokens, generator=generator, dtype=torch.float64)


def distribution(logits: Tensor, wanted: Sequence[SamplingSpec]) -> Tensor:
    """Return the log-probabilities [n, vocabulary] that tokens are sampled from; greedy requests keep all of them as they are.

    Temperature first, then the `top_k` most likely, then the smallest set that holds `top_p`, renormalised: as vLLM does.
    """
    temperatures = torch.tensor([w.temperature if w.temperature > GREEDY else 1.0 for w in wanted], device=logits.device)
    logp = (logits.float() / temperatures.unsqueeze(1)).log_softmax(-1)
    if all((w.top_p >= 1 and w.top_k < 1) or w.temperature <= GREEDY for w in wanted):
        return logp
    ordered, places = logp.sort(dim=-1, descending=True)
    ranks = torch.arange(ordered.shape[1], device=logits.device)
    most = torch.tensor([w.top_k if w.top_k > 0 else ordered.shape[1] for w in wanted], device=logits.device)
    left_out = ranks >= most.unsqueeze(1)
    kept = ordered.masked_fill(left_out, -torch.inf).softmax(-1)
    mass = torch.tensor([w.top_p for w in wanted], device=logits.device).unsqueeze(1)
    # A token stays while those before it have less than the mass.
    left_out |= (kept.cumsum(-1) - kept >= mass) & (ranks > 0)
    greedy = torch.tensor([w.temperature <= GREEDY for w in wanted], device=logits.device).unsqueeze(1)
    left_out &= ~greedy
    ordered = ordered.masked_fill(left_out, -torch.inf)
    return torch.empty_like(logp).scatter_(1, places, ordered).log_softmax(-1)


def draw(logp: Tensor, wanted: Sequence[SamplingSpec], uniforms: Tensor) -> Tensor:
    """Return one id per row [n]: the cumulative distribution inverted at `uniforms` [n]; the likeliest for greedy requests."""
    cumulated = logp.double().exp().cumsum(-1)
    found = torch.searchsorted(cumulated, (uniforms.to(logp.device) * cumulated[:, -1]).unsqueeze(1), right=True).squeeze(1)
    # If rounding made the mass too small, the last possible token is chosen.
    found = found.clamp(max=logp.shape[1] - 1)
    greedy = torch.tensor([w.temperature <= GREEDY for w in wanted], device=logp.device)
    return torch.where(greedy, logp.argmax(-1), found)
