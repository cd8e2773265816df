"""What a decoder layer computes besides attention, by the compiled kernels."""

from __future__ import annotations

from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from astuner_local.compiled.kernels import FEW, LANES, Kernels

_ALL = 1 << 62
_MANY = 300
_MOST_PRODUCTS = 1 << 29
_LENGTHS = (192, 256, 384)
"""After as many inputs libraries begin a new sum."""


def make_operations(kernels: Kernels, products: list[tuple[Tensor, Tensor | None]], head_dim: int) -> CompiledOperations | None:
    """Return the operations on a model whose linear layers have these weights [columns, inner] and biases.

    None if the kernels cannot compute them.
    """
    if head_dim % LANES or any(weight.shape[1] % LANES or not weight.is_contiguous() for weight, _ in products):
        return None
    return CompiledOperations(kernels, products)


class CompiledOperations:
    """The `forward.operations.Operations` of a model on a CPU, without gradients.

    Linear layers of few rows need no padding. In float32 they have the bits of torch's products of many rows, whose order of
    sums is found by trial for each shape; no rows go unpadded if it is not found for one. In bfloat16, where no bits are
    promised, the kernel takes what it is faster at: on processors without instructions for it all but single rows.
    """

    def __init__(self, kernels: Kernels, products: list[tuple[Tensor, Tensor | None]]) -> None:
        """Take the weights and biases of `make_operations`."""
        self._kernels = kernels
        self.normalize, self.rotate, self.gate = kernels.normalize, kernels.rotate, kernels.gate
        exact = kernels.dtype == torch.float32
        threads = torch.get_num_threads()
        self._blocks: dict[tuple[int, int], int] = {}
        for weight, bias in products:
            columns, inner = shape = (weight.shape[0], weight.shape[1])
            block = _find_block(kernels, columns, inner, bias is not None, threads) if exact else inner
            self._blocks[shape] = block if self._blocks.get(shape, block) == block else 0
        self.unpadded_rows = FEW if all(self._blocks.values()) else 0
        self._least = 1 if exact else 2
        self._most = self.unpadded_rows if exact or _multiplies_bfloat16() else _ALL

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return what `functional.linear` does for x [rows, inner]."""
        if not self._least <= x.shape[0] <= self._most:
            return functional.linear(x, weight, bias)
        return self._kernels.multiply(x, weight, bias, self._blocks[weight.shape[0], weight.shape[1]])


def _multiplies_bfloat16() -> bool:
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


@cache
@torch.inference_mode()
def _find_block(kernels: Kernels, columns: int, inner: int, biased: bool, threads: int) -> int:
    """Return after how many inputs torch begins a new sum, at any number of rows; 0 if the kernel cannot follow it."""
    draw = torch.Generator().manual_seed(0)
    rows = max(2 * FEW, min(_MANY, _MOST_PRODUCTS // (columns * inner)))
    x, weight = torch.randn(rows, inner, generator=draw), torch.randn(columns, inner, generator=draw)
    bias = torch.randn(columns, generator=draw) if biased else None
    many = functional.linear(x, weight, bias)
    halves = [-(-inner // parts) for parts in (1, 2, 3)]
    for block in dict.fromkeys([*halves, *_LENGTHS]):
        if block % LANES == 0 and all(
            torch.equal(kernels.multiply(x[:few], weight, bias, block), many[:few]) for few in (1, FEW - 1, FEW)
        ):
            return block
    return 0
