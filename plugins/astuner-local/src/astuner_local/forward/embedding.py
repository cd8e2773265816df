"""The rows of an embedding table, with a gradient of the rows that were read."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class _Rows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, ids: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(ids)
        ctx.table = table
        return functional.embedding(ids, table)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        (ids,) = ctx.saved_tensors
        table, grad = ctx.table, grads[0].to(ctx.table.dtype)
        if table.grad is None:
            return None, torch.zeros_like(table).index_add_(0, ids, grad)
        # There is a gradient to add to, of the head that shares the table or of an earlier pass: a dense one would take a sweep
        # over the vocabulary, and its memory. Each id is summed first, in the order of the tokens.
        rows, places = ids.unique(return_inverse=True)
        sums = grad.new_zeros(len(rows), grad.shape[1]).index_add_(0, places, grad)
        return None, torch.sparse_coo_tensor(rows[None], sums, table.shape, is_coalesced=True, check_invariants=False)


def read_rows(ids: Tensor, table: Tensor) -> Tensor:
    """Return the rows [N, d] of the table [vocab, d]. Where the table has a gradient already, its own is sparse."""
    if table.device.type != "cpu":
        return functional.embedding(ids, table)
    result: Tensor = _Rows.apply(ids, table)  # type: ignore[no-untyped-call]  # torch ships it without types
    return result
