"""Rotary position embeddings, from the inverse frequencies that the module itself computed."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_BLOCK = 1024


class Rotary:
    """Cosines and sines of positions for `rotate`.

    On a CPU they are looked up in a table that grows in blocks of one fixed shape: the vectorised and the scalar cosine differ in
    the last bit, so a value computed within a batch would depend on its place in the batch.
    """

    def __init__(self, rotary_emb: nn.Module, dtype: torch.dtype) -> None:
        """Read `inv_freq` and `attention_scaling` of a transformers rotary embedding of fixed frequencies."""
        inv_freq = rotary_emb.inv_freq
        scaling = rotary_emb.attention_scaling
        assert isinstance(inv_freq, Tensor)
        assert isinstance(scaling, float | int)
        self.half = inv_freq.shape[0]
        self._inv_freq = inv_freq.detach().float()
        self._scaling = float(scaling)
        self._dtype = dtype
        self._table = torch.empty(0, 2, 2 * self.half, dtype=dtype)

    def __call__(self, positions: Tensor) -> Tensor:
        """Return cosines and signed sines, [N, 2, head_dim], of positions [N]."""
        if positions.device.type != "cpu":
            return self._rows(positions)
        self._grow(int(positions.max()) + 1)
        return self._table.index_select(0, positions)

    def _grow(self, length: int) -> None:
        have = self._table.shape[0]
        if length > have:
            length = max(-(-length // _BLOCK) * _BLOCK, 2 * have)
            blocks = [self._rows(torch.arange(start, start + _BLOCK)) for start in range(have, length, _BLOCK)]
            self._table = torch.cat([self._table, *blocks])

    def _rows(self, positions: Tensor) -> Tensor:
        angles = positions.float()[:, None] * self._inv_freq.to(positions.device)
        cos, sin = angles.cos(), angles.sin()
        # The minus sign of rotate_half is in the sines, so that a roll replaces it.
        rows = torch.stack([torch.cat([cos, cos], -1), torch.cat([-sin, sin], -1)], 1)
        return (rows * self._scaling).to(self._dtype)


def rotate(x: Tensor, turns: Tensor) -> Tensor:
    """Return x [N, heads, head_dim] turned to its positions by turns [N, 2, head_dim]."""
    return torch.addcmul(x * turns[:, :1], x.roll(x.shape[-1] // 2, -1), turns[:, 1:])
