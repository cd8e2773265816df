"""Attention over packed rows: each row's own tokens see the row's whole path, and nothing else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from attrs import frozen
from torch import Tensor

from astuner_local.trainer.packing import PackedRows

if TYPE_CHECKING:
    from numpy.typing import NDArray


@frozen(kw_only=True, eq=False)
class Block:
    """Spans that attend in one call, padded to a rectangle. B spans, Q own tokens at most, K visible tokens at most."""

    queries: tuple[int, int]
    """(B, Q)"""
    keys: tuple[int, int]
    """(B, K)"""
    starts: Tensor | None
    """[B] the position of each span's first query; None for spans that start at 0, which are plainly causal."""

    def mask(self, dtype: torch.dtype) -> Tensor | None:
        """Return [B, 1, Q, K], 0 where a query sees a key, that is up to its own position, else -inf; None if plainly causal."""
        if self.starts is None:
            return None
        device = self.starts.device
        last = self.starts[:, None] + torch.arange(self.queries[1], device=device)  # [B, Q]
        hidden = (torch.arange(self.keys[1], device=device) > last[..., None])[:, None]
        return torch.zeros(hidden.shape, dtype=dtype, device=device).masked_fill_(hidden, -math.inf)


@frozen(kw_only=True, eq=False)
class Tree:
    """A row from its first token on, and the rows that continue its prefixes: neighbours in the flat list, used as they lie."""

    trunk: slice
    """Of the flat list, plainly causal."""
    branches: slice
    """Of the flat list: what the trunk does not have. Empty for a single row."""
    hidden: Tensor
    """[branches, tree] whether a token of the branches does not see a token of the tree."""

    def mask(self, dtype: torch.dtype) -> Tensor:
        """Return [1, 1, branches, tree], 0 where a token is seen, else -inf."""
        return torch.zeros(self.hidden.shape, dtype=dtype, device=self.hidden.device).masked_fill_(self.hidden, -math.inf)[
            None, None
        ]


@frozen(kw_only=True, eq=False)
class Layout:
    """Index arithmetic between the flat list and the padded blocks, made once per pass and used in every layer."""

    blocks: tuple[Block, ...]
    query_index: Tensor
    """[sum of B*Q] flat-list places of the blocks' queries, padding at 0."""
    key_index: Tensor
    """[sum of B*K]"""
    back: Tensor
    """[N] where in the joined block outputs each token of the flat list lies."""


def make_layout(packed: PackedRows, device: torch.device) -> Layout | tuple[Tree, ...]:
    """Return what attends in one call: trees, or rectangles, as `PassSize.one_mask` says."""
    return tuple(_find_trees(packed, device)) if packed.measure().one_mask else _make_rectangles(packed, device)


def _find_trees(packed: PackedRows, device: torch.device) -> Iterator[Tree]:
    starts = [number for number, span in enumerate(packed.spans) if not span.start]
    for first, last in pairwise([*starts, len(packed.spans)]):
        root, *others = packed.spans[first:last]
        begin, middle = int(root.path[0]), int(root.path[-1]) + 1
        end = int(packed.spans[last - 1].path[-1]) + 1
        hidden = np.ones((end - middle, end - begin), np.bool_)
        for span in others:
            own = span.path[span.start :]
            block = hidden[own[0] - middle : own[-1] + 1 - middle]
            block[:, span.path[: span.start] - begin] = False
            block[:, own - begin] = np.triu(np.ones((len(own), len(own)), np.bool_), 1)
        yield Tree(trunk=slice(begin, middle), branches=slice(middle, end), hidden=torch.from_numpy(hidden).to(device))


def _make_rectangles(packed: PackedRows, device: torch.device) -> Layout:
    """Put the spans that start a row into one block, and those that continue another row's prefix into a second."""
    blocks, query_parts, key_parts = [], [], []
    back = np.empty(len(packed.ids), np.int64)
    offset = 0
    for continues in (False, True):
        spans = [span for span in packed.spans if (span.start > 0) is continues]
        if not spans:
            continue
        queries = _pad([span.path[span.start :] for span in spans])
        keys = _pad([span.path for span in spans]) if continues else queries
        for number, span in enumerate(spans):
            row = offset + number * queries.shape[1]
            back[span.path[span.start :]] = np.arange(row, row + len(span.path) - span.start)
        offset += queries.size
        blocks.append(
            Block(
                queries=(queries.shape[0], queries.shape[1]),
                keys=(keys.shape[0], keys.shape[1]),
                starts=torch.tensor([span.start for span in spans], device=device) if continues else None,
            )
        )
        query_parts.append(queries.ravel())
        key_parts.append(keys.ravel())
    return Layout(
        blocks=tuple(blocks),
        query_index=torch.from_numpy(np.concatenate(query_parts)).to(device),
        key_index=torch.from_numpy(np.concatenate(key_parts)).to(device),
        back=torch.from_numpy(back).to(device),
    )


def _pad(paths: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    out = np.zeros((len(paths), max(map(len, paths))), np.int64)
    for number, path in enumerate(paths):
        out[number, : len(path)] = path
    return out


def attend_over(plan: Layout | tuple[Tree, ...], scale: float) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    """Return the `attend` of a forward pass over the packed rows."""
    attend = _attend_rectangles(plan, scale) if isinstance(plan, Layout) else _attend_trees(plan, scale)

    def attend_wide(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        # On a CPU torch's backward pass of attention takes two to eight times as long in bfloat16.
        return attend(layer, *((q, k, v) if q.is_cuda else (q.float(), k.float(), v.float()))).to(q.dtype)

    return attend_wide


def _attend_trees(trees: Sequence[Tree], scale: float) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    masks: list[Tensor] = []

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        if not masks:
            masks.extend(tree.mask(q.dtype) for tree in trees)
        q, k, v = (t.transpose(0, 1)[None] for t in (q, k, v))  # [1, heads, N, size]
        outputs = []
        for tree, mask in zip(trees, masks, strict=True):
            trunk, whole = tree.trunk, slice(tree.trunk.start, tree.branches.stop)
            outputs.append(_attend(q[:, :, trunk], k[:, :, trunk], v[:, :, trunk], None, scale))
            if mask.shape[2]:
                outputs.append(_attend(q[:, :, tree.branches], k[:, :, whole], v[:, :, whole], mask, scale))
        return torch.cat(outputs, 2)[0].transpose(0, 1)  # [N, heads, size]

    return attend


def _attend_rectangles(plan: Layout, scale: float) -> Callable[[int, Tensor, Tensor, Tensor], Tensor]:
    # Made once per pass, not once per layer, and not kept between passes: only these grow with Q x K. They have the dtype of the
    # queries: of a boolean mask torch makes such a copy in each layer, and keeps all of them for the backward pass.
    masks: list[Tensor | None] = []
    query_counts = [math.prod(block.queries) for block in plan.blocks]
    key_counts = [math.prod(block.keys) for block in plan.blocks]

    def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads, kv_heads, size = q.shape[1], k.shape[1], q.shape[2]
        if not masks:
            masks.extend(block.mask(q.dtype) for block in plan.blocks)
        # index_select and its backward, index_add, go through the indices in order: the same bits in every run.
        # The backward of q[index] adds in the order of the threads.
        bqs = torch.split(q.reshape(-1, heads * size).index_select(0, plan.query_index), query_counts)
        bks = torch.split(k.reshape(-1, kv_heads * size).index_select(0, plan.key_index), key_counts)
        bvs = torch.split(v.reshape(-1, kv_heads * size).index_select(0, plan.key_index), key_counts)
        outputs = []
        for block, mask, bq, bk, bv in zip(plan.blocks, masks, bqs, bks, bvs, strict=True):
            bq = bq.view(*block.queries, heads, size).transpose(1, 2)  # [B, heads, Q, size]
            bk, bv = (t.view(*block.keys, kv_heads, size).transpose(1, 2) for t in (bk, bv))  # [B, kv_heads, K, size]
            o = _attend(bq, bk, bv, mask, scale)  # [B, heads, Q, size]
            outputs.append(o.transpose(1, 2).reshape(-1, heads * size))
        joined = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        return joined.index_select(0, plan.back).view(-1, heads, size)

    return attend


def _attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """Return [B, heads, Q, size] for q of that shape, k and v [B, kv_heads, K, size]; plainly causal without a mask."""
    grouped = q.shape[1] != k.shape[1]
    if grouped and mask is not None and q.is_cuda:
        # No fused CUDA kernel takes a mask and grouped heads together.
        k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
        grouped = False
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None, scale=scale, enable_gqa=grouped)
