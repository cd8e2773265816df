"""How many rows a float32 product needs to have the bits of many: a processor takes other kernels for few of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

SAFE = 16
"""Enough of them on every processor seen so far."""
_MANY = 48
_LINEAR = ((96, 288), (384, 1152), (1024, 384))
"""Inner dimension and columns of the linear layers that are tried."""
_KEYS = (16, 128, 208, 1008)
"""Numbers of keys that are tried, the least among them: `torch.bmm` has another kernel for fewer than 400 multiplications."""
_VALUES = _KEYS[:2]
"""More are not summed at once."""


def find_row_multiple(dtype: torch.dtype, device: torch.device, head_dim: int) -> int:
    """Return the number whose multiples of rows give each row the same bits; 1 where none is promised: on a GPU, in bfloat16."""
    if device.type != "cpu" or dtype != torch.float32:
        return 1
    return _try_multiples(torch.get_num_threads(), head_dim)


@cache
def _try_multiples(threads: int, head_dim: int) -> int:
    draw = torch.Generator().manual_seed(0)
    shapes = [*_LINEAR, *((head_dim, keys) for keys in _KEYS), *((values, head_dim) for values in _VALUES)]
    pairs = [
        (torch.rand(2, _MANY, inner, generator=draw), torch.rand(2, columns, inner, generator=draw)) for inner, columns in shapes
    ]
    return next((rows for rows in (4, 8) if all(_agrees(left, right, rows) for left, right in pairs)), SAFE)


def _agrees(left: Tensor, right: Tensor, multiple: int) -> bool:
    """Whether multiples of rows have the same bits in products of every form that the engine uses."""
    turned = right.transpose(1, 2)
    forms: list[tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor]] = [
        (torch.bmm, left, turned),
        (torch.bmm, left, turned.contiguous()),
        (torch.nn.functional.linear, left[0], right[0]),
    ]
    for multiply, rows, other in forms:
        many = multiply(rows, other)
        for times in (1, 2, 3, 5):
            count = times * multiple
            if not torch.equal(multiply(rows[..., :count, :], other), many[..., :count, :]):
                return False
    return True
