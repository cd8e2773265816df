"""Draws the next token of every row from its own distribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from attrs import field, frozen
from torch import Tensor

from astuner.contract.schema import Sampling
from astuner_local.engine.uniforms import draw_uniforms


@frozen(kw_only=True)
class DrawnTokens:
    """One token per row."""

    ids: Sequence[int]
    logprobs: Sequence[float]
    """Of the distribution sampled from: temperature applied, renormalised over what top_k and top_p keep."""
    tops: Mapping[int, Mapping[int, float]] = field(factory=dict)
    """The most likely ids with their log-probabilities, of the rows that asked."""


class Sampler:
    """Samples for a fixed list of requests; made again when the list changes, so that a step pays only for what its rows need.

    Temperature 0 takes the most likely token, and reports its log-probability at temperature 1.
    """

    def __init__(self, samplings: Sequence[Sampling], device: torch.device) -> None:
        """Take the parameters of each row, in the order in which `draw` gets the logits."""
        self._device = device
        self._seeds = [sampling.seed for sampling in samplings]
        temperatures = [sampling.temperature for sampling in samplings]
        greedy = [temperature <= 0 for temperature in temperatures]
        self._all_greedy = all(greedy)
        self._greedy = self._tensor(greedy) if any(greedy) else None
        scales = [1.0 if temperature <= 0 else temperature for temperature in temperatures]
        self._temperature = self._tensor(scales)[:, None] if any(scale != 1.0 for scale in scales) else None
        cut = [row for row, s in enumerate(samplings) if not greedy[row] and (s.top_k > 0 or s.top_p < 1.0)]
        self._cut = self._tensor(cut) if cut else None
        self._top_k = self._tensor([max(samplings[row].top_k, 0) for row in cut])[:, None]
        self._top_p = self._tensor([samplings[row].top_p for row in cut]).double()[:, None]
        self._tops = {row: s.top_logprobs for row, s in enumerate(samplings) if s.top_logprobs > 0}

    def draw(self, logits: Tensor, indices: Sequence[int]) -> DrawnTokens:
        """Draw from float32 logits [n, vocab]; `indices` [n] count the tokens that each request has already sampled."""
        if self._temperature is not None:
            logits = logits / self._temperature
        if self._cut is not None:
            logits = logits.index_copy(0, self._cut, self._truncate(logits.index_select(0, self._cut)))
        logprobs = logits.log_softmax(-1)
        if self._all_greedy:
            ids = logprobs.argmax(-1)
        else:
            # Inverse CDF: one uniform per row, where multinomial needs one per entry of the vocabulary.
            cdf = logprobs.exp().cumsum(-1, dtype=torch.float64)
            target = torch.from_numpy(draw_uniforms(self._seeds, indices)).to(self._device)[:, None] * cdf[:, -1:]
            ids = torch.searchsorted(cdf, target, right=True)[:, 0].clamp_(max=logits.shape[1] - 1)
            if self._greedy is not None:
                ids = torch.where(self._greedy, logprobs.argmax(-1), ids)
        chosen = logprobs.gather(1, ids[:, None])[:, 0]
        return DrawnTokens(ids=ids.tolist(), logprobs=chosen.tolist(), tops=self._most_likely(logprobs))

    def _truncate(self, logits: Tensor) -> Tensor:
        """Set to -inf all but the `top_k` most likely ids, then all but the fewest that hold `top_p` of the rest."""
        ordered, order = logits.sort(stable=True, dim=-1, descending=True)
        rank = torch.arange(logits.shape[1], device=self._device)[None]
        ordered = ordered.masked_fill((self._top_k > 0) & (rank >= self._top_k), -torch.inf)
        probs = ordered.softmax(-1).double()
        before = probs.cumsum(-1) - probs
        ordered = ordered.masked_fill((before >= self._top_p) & (rank > 0), -torch.inf)
        return torch.empty_like(logits).scatter_(-1, order, ordered)

    def _most_likely(self, logprobs: Tensor) -> dict[int, dict[int, float]]:
        found = {}
        for row, count in self._tops.items():
            values, ids = logprobs[row].topk(min(count, logprobs.shape[1]))
            found[row] = dict(zip(ids.tolist(), values.tolist(), strict=True))
        return found

    def _tensor(self, values: Sequence[float]) -> Tensor:
        return torch.tensor(values, device=self._device)
