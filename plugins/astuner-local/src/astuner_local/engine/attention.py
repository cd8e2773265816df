"""Attention of one engine step: every decoding row over its slot, and stretches of prompt over theirs.

On a CPU the keys and values of a token depend, bit for bit, only on the ids up to it: not on how a prompt was cut into
stretches, nor on whether a token was prefilled or decoded, nor on the rest of the batch. Three properties of matrix products
would break that, and each is handled here: few rows take another kernel (so each head of a row, and a stretch, has a multiple
of `exact_rows` of them), a long inner dimension is cut into parts that depend on its length (so it is cut here, every `_BLOCK`
tokens), and reductions work in vector lanes (so padded lengths are multiples of `STRIDE`).
"""

from __future__ import annotations

import torch
from attrs import frozen
from torch import Tensor
from torch.nn import functional

from astuner_local.engine.exact_rows import SAFE
from astuner_local.engine.kv_cache import STRIDE, KvCache, round_up

_BLOCK = 128
_SCORES = 1 << 19
"""Most scores computed at once on a CPU; longer stretches are cut, which also leaves out most of what comes after a token."""


@frozen(kw_only=True)
class Stretch:
    """Prompt tokens of one slot, consecutive in the step's list of tokens."""

    slot: int
    begin: int
    """Where it begins in the list of tokens."""
    size: int
    position: int
    """Position of its first token in the sequence."""


class StepAttention:
    """The `attend` of one step; the tokens are the decoding rows (one per slot from 0), then the stretches, then padding."""

    def __init__(
        self,
        cache: KvCache,
        *,
        scale: float,
        multiple: int,
        destinations: Tensor,
        positions: Tensor,
        decoding: int,
        longest: int,
        stretches: list[Stretch],
    ) -> None:
        """`decoding` rows attend over the first slots, the longest of which has `longest` tokens.

        Products get a `multiple` of rows.
        """
        self._cache = cache
        self._scale = scale
        self._multiple = multiple
        self._destinations = destinations
        self._decoding = decoding
        self._stretches = stretches
        self._length = min(round_up(longest, STRIDE), cache.length)
        self._cpu = positions.device.type == "cpu"
        if decoding:
            columns = torch.arange(self._length, device=positions.device)
            hidden = columns > positions[:decoding, None]
            self._mask = torch.zeros(hidden.shape, device=positions.device).masked_fill_(hidden, -torch.inf)[:, None]

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store k and v [N, kv_heads, head_dim], and return what q [N, heads, head_dim] attends to."""
        self._cache.write(layer, self._destinations, k, v)
        if self._decoding == q.shape[0]:
            return self._decode(layer, q)
        out = torch.zeros(q.shape, dtype=q.dtype, device=q.device)
        if self._decoding:
            out[: self._decoding] = self._decode(layer, q[: self._decoding])
        for stretch in self._stretches:
            end = stretch.begin + stretch.size
            out[stretch.begin : end] = self._prefill(layer, q[stretch.begin : end], stretch)
        return out

    def _decode(self, layer: int, q: Tensor) -> Tensor:
        rows, heads, dim = q.shape
        kv_heads = self._cache.num_kv_heads
        share = heads // kv_heads
        keys, values = self._cache.read(layer, rows, self._length)
        scaled = (q * self._scale).reshape(rows * kv_heads, share, dim)
        padded = round_up(share, self._multiple)
        if padded > share:
            scaled = functional.pad(scaled, (0, 0, 0, padded - share))
        scores = torch.bmm(scaled, keys.transpose(1, 2)).view(rows, kv_heads * padded, self._length)
        probs = self._softmax(scores, self._mask).view(rows * kv_heads, padded, self._length)
        return self._weigh_values(probs, values)[:, :share].reshape(rows, heads, dim)

    def _prefill(self, layer: int, q: Tensor, stretch: Stretch) -> Tensor:
        size, heads, _ = q.shape
        if not self._cpu:
            return self._prefill_fused(layer, q, stretch)
        limit = max(SAFE, _SCORES // (heads * round_up(stretch.position + size, STRIDE)))
        parts = [
            self._prefill_part(layer, q[at : at + limit], stretch.slot, stretch.position + at) for at in range(0, size, limit)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _prefill_part(self, layer: int, q: Tensor, slot: int, position: int) -> Tensor:
        size, heads, dim = q.shape
        kv_heads = self._cache.num_kv_heads
        share = heads // kv_heads
        used = size * share
        length = min(round_up(position + size, STRIDE), self._cache.length)
        keys, values = self._cache.read_row(layer, slot, length)
        scaled = torch.zeros(kv_heads, round_up(used, self._multiple), dim, dtype=q.dtype)
        by_head = (q * self._scale).reshape(size, kv_heads, share, dim).transpose(0, 1)
        scaled[:, :used].view(kv_heads, size, share, dim).copy_(by_head)
        row_positions = position + torch.arange(scaled.shape[1]) // share
        mask = torch.zeros(scaled.shape[1], length).masked_fill_(torch.arange(length) > row_positions[:, None], -torch.inf)
        probs = self._softmax(torch.bmm(scaled, keys.transpose(1, 2)), mask)
        seen = self._weigh_values(probs, values)[:, :used].view(kv_heads, size, share, dim)
        return seen.transpose(0, 1).reshape(size, heads, dim)

    def _prefill_fused(self, layer: int, q: Tensor, stretch: Stretch) -> Tensor:
        end = stretch.position + stretch.size
        keys, values = self._cache.read_row(layer, stretch.slot, end)
        rows = torch.arange(stretch.position, end, device=q.device)
        mask = torch.arange(end, device=q.device)[None] <= rows[:, None]
        seen = functional.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            keys[None],
            values[None],
            attn_mask=mask,
            scale=self._scale,
            enable_gqa=q.shape[1] != keys.shape[0],
        )
        return seen[0].transpose(0, 1)

    def _softmax(self, scores: Tensor, mask: Tensor) -> Tensor:
        if scores.dtype == torch.float32:
            return scores.add_(mask).softmax(-1)
        return (scores + mask).softmax(-1, dtype=torch.float32).to(scores.dtype)

    def _weigh_values(self, probs: Tensor, values: Tensor) -> Tensor:
        """Return probs [n, rows, length] times values [n, length, head_dim]."""
        length = probs.shape[-1]
        if length <= _BLOCK or not self._cpu:
            return torch.bmm(probs, values)
        out = torch.bmm(probs[..., :_BLOCK], values[:, :_BLOCK])
        for begin in range(_BLOCK, length, _BLOCK):
            out += torch.bmm(probs[..., begin : begin + _BLOCK], values[:, begin : begin + _BLOCK])
        return out
