"""Keys and values of all sequences: one dense row of tokens per slot."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

ROWS = 16
"""Slots are allocated in multiples of this."""
STRIDE = 16
"""Token capacity, and every padded length, is a multiple of this, so extending a masked row changes no bit of its result. The
compiled kernels keep keys in blocks of as many tokens, so that only whole blocks are moved."""


def round_up(value: int, multiple: int) -> int:
    """Return the next multiple."""
    return -(-value // multiple) * multiple


class KvCache:
    """Two tensors per layer, [(rows + 1) * kv_heads, length, head_dim]; the last row takes writes that are never read."""

    def __init__(self, *, num_layers: int, num_kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device) -> None:
        """Start empty; `reshape` allocates."""
        self.num_kv_heads = num_kv_heads
        self.rows = 0
        self.length = 0
        self._head_dim = head_dim
        self.dtype = dtype
        self._device = device
        empty = torch.empty(num_kv_heads, 0, head_dim, dtype=dtype, device=device)
        self.layers = [(empty, empty) for _ in range(num_layers)]

    @property
    def bytes_per_token(self) -> int:
        """Memory of one token over all layers."""
        return 2 * len(self.layers) * self.num_kv_heads * self._head_dim * self.dtype.itemsize

    def read(self, layer: int, rows: int, length: int) -> tuple[Tensor, Tensor]:
        """Return views [rows * kv_heads, length, head_dim] of the first rows."""
        keys, values = self.layers[layer]
        end = rows * self.num_kv_heads
        return keys[:end, :length], values[:end, :length]

    def read_row(self, layer: int, row: int, length: int) -> tuple[Tensor, Tensor]:
        """Return views [kv_heads, length, head_dim] of one row."""
        keys, values = self.layers[layer]
        heads = slice(row * self.num_kv_heads, (row + 1) * self.num_kv_heads)
        return keys[heads, :length], values[heads, :length]

    def destinations(self, rows: NDArray[np.int64], positions: NDArray[np.int64]) -> Tensor:
        """Return where `write` puts the keys and values of tokens; row -1 is never read."""
        rows = np.where(rows < 0, self.rows, rows)
        heads = rows[:, None] * self.num_kv_heads + np.arange(self.num_kv_heads)
        return torch.from_numpy((heads * self.length + positions[:, None]).reshape(-1)).to(self._device)

    def write(self, layer: int, destinations: Tensor, keys: Tensor, values: Tensor) -> None:
        """Store keys and values [n, kv_heads, head_dim]."""
        for kept, new in zip(self.layers[layer], (keys, values), strict=True):
            kept.view(-1, self._head_dim).index_copy_(0, destinations, new.reshape(-1, self._head_dim))

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first tokens of a row."""
        heads, length = self.num_kv_heads, round_up(length, STRIDE)
        for pair in self.layers:
            for kept in pair:
                by_row = _view_by_row(kept, heads)
                by_row[target, :, :length].copy_(by_row[source, :, :length])

    def exchange(self, left: Sequence[int], right: Sequence[int], length: int) -> None:
        """Swap the first tokens of rows, pairwise."""
        length = round_up(length, STRIDE)
        target = torch.tensor([*left, *right], device=self._device)
        source = torch.tensor([*right, *left], device=self._device)
        for pair in self.layers:
            for kept in pair:
                by_row = _view_by_row(kept, self.num_kv_heads)[:, :, :length]
                by_row[target] = by_row[source]

    def reshape(self, order: Sequence[int], rows: int, length: int) -> None:
        """Keep the given rows, in this order, as the first ones of a cache of another size."""
        self.rows, self.length = rows, length
        source = torch.tensor(list(order), dtype=torch.long, device=self._device)
        layers = []
        for pair in self.layers:
            made = []
            for kept in pair:
                new = torch.zeros((rows + 1) * self.num_kv_heads, length, self._head_dim, dtype=self.dtype, device=self._device)
                tokens = min(length, kept.shape[1])
                by_row = _view_by_row(new, self.num_kv_heads)
                by_row[: len(order), :, :tokens] = _view_by_row(kept, self.num_kv_heads)[source, :, :tokens]
                made.append(new)
            layers.append((made[0], made[1]))
        self.layers = layers

    @torch.inference_mode()
    def clear(self) -> None:
        """Zero everything: a non-finite value would reach the next user of the row, through 0 * nan."""
        for pair in self.layers:
            for kept in pair:
                kept.zero_()


def _view_by_row(kept: Tensor, heads: int) -> Tensor:
    """View [rows * heads, length, head_dim] as [rows, heads, length, head_dim]."""
    return kept.view(kept.shape[0] // heads, heads, *kept.shape[1:])
