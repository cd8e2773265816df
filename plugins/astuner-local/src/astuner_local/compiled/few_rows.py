"""Linear layers of few rows by the compiled kernel, where their bits are those of the library's product of many rows."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from astuner_local.compiled.kernels import FEW, LANES, Kernels

_MANY = 300
_MOST_PRODUCTS = 1 << 29
_LENGTHS = (192, 256, 384)
"""After as many inputs libraries begin a new sum."""


class FewRows:
    """Applies linear layers to few rows without padding them.

    In float32 a product has the bits of torch's for many rows, whose order of sums is found by trial for each shape; `most` is 0
    if it is not found for one. In bfloat16, where no bits are promised, the kernel takes what it is faster at: on processors
    without instructions for it all but single rows.
    """

    def __init__(self, kernels: Kernels, weights: list[tuple[Tensor, Tensor | None]]) -> None:
        """Take all weights [columns, inner] that will be applied, each with its bias or None."""
        self._kernels = kernels
        exact = kernels.dtype == torch.float32
        threads = torch.get_num_threads()
        self._blocks: dict[tuple[int, int], int] = {}
        for weight, bias in weights:
            columns, inner = shape = (weight.shape[0], weight.shape[1])
            block = _find_block(kernels, columns, inner, bias is not None, threads) if exact else inner // LANES * LANES
            if inner % LANES == 0 and block and self._blocks.get(shape, block) == block:
                self._blocks[shape] = block
            else:
                self._blocks[shape] = 0
        self.most = FEW if all(self._blocks.values()) else 0
        """Up to as many rows need no padding."""
        self._least = 1 if exact else 2
        self._limit = self.most if exact or _multiplies_bfloat16() else 1 << 30 if self.most else 0

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return what `functional.linear` does for x [rows, inner]."""
        if not self._least <= x.shape[0] <= self._limit:
            return functional.linear(x, weight, bias)
        return self._kernels.multiply(x, weight, bias, self._blocks[weight.shape[0], weight.shape[1]])


def _multiplies_bfloat16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@cache
@torch.inference_mode()
def _find_block(kernels: Kernels, columns: int, inner: int, biased: bool, threads: int) -> int:
    """Return after how many inputs torch begins a new sum, at any number of rows; 0 if the kernel cannot follow it."""
    draw = torch.Generator().manual_seed(0)
    rows = max(48, min(_MANY, _MOST_PRODUCTS // (columns * inner)))
    x, weight = torch.randn(rows, inner, generator=draw), torch.randn(columns, inner, generator=draw)
    bias = torch.randn(columns, generator=draw) if biased else None
    many = functional.linear(x, weight, bias)
    halves = [-(-inner // parts) for parts in (1, 2, 3)]
    for block in dict.fromkeys([*halves, *_LENGTHS]):
        if block % LANES == 0 and all(
            torch.equal(kernels.multiply(x[:few], weight, bias, block), many[:few]) for few in (FEW, FEW - 1, 1)
        ):
            return block
    return 0
