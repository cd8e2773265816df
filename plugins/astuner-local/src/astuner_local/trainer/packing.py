"""Rows laid out as one flat list of tokens, in which a group's common prefixes appear once.

Sorted by ids, a row shares with the row before it the longest prefix that it shares with any earlier one. So a row's *path*
(for each of its positions, where in the flat list that token lies) is the head of the previous path followed by the row's own
tokens: a trie, built in one pass. A row without own tokens, a duplicate of another, costs nothing but its part of the loss.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from astuner_local.trainer.rows import TrainRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Index = NDArray[np.int64]


@frozen(kw_only=True, eq=False)
class Span:
    """A row's own tokens, and everything that they see."""

    path: Index
    """[n] where each of the row's tokens lies in the flat list."""
    start: int
    """The index of the first own token; those before it belong to earlier rows."""


@frozen(kw_only=True, eq=False)
class PackedRows:
    """The flat list of tokens of some rows, and its trained places."""

    ids: Index
    """[N]"""
    positions: Index
    """[N] place of each token in its row."""
    spans: tuple[Span, ...]
    """One per row that owns tokens. Each token of the list is owned once."""
    predictors: Index
    """[R] where in the list the token *before* each trained one lies: its hidden state predicts it."""
    targets: Index
    """[R] the trained ids."""
    owners: Index
    """[R] the row of each, as an index into the rows that were packed."""
    sampler: NDArray[np.float32]
    """[R] log-probabilities that the sampler recorded."""


def common_prefix(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """Return the number of leading ids that two rows share."""
    n = min(len(a), len(b))
    differ = a[:n] != b[:n]
    return int(differ.argmax()) if differ.any() else n


def pack(rows: Sequence[TrainRow], *, share_prefixes: bool) -> PackedRows:
    """Lay out rows in their order. Only neighbours of one group share: `micro_batches` orders them so that this finds all."""
    ids, positions, predictors, targets, owners, sampler, spans = [], [], [], [], [], [], []
    path: Index = np.empty(0, np.int64)
    total = 0
    for number, row in enumerate(rows):
        own, mask = row.sample.ids, row.sample.mask
        start = 0
        if share_prefixes and number and rows[number - 1].group == row.group:
            start = common_prefix(rows[number - 1].sample.ids, own)
        path = np.concatenate([path[:start], np.arange(total, total + len(own) - start)])
        if start < len(own):
            spans.append(Span(path=path, start=start))
            ids.append(own[start:])
            positions.append(np.arange(start, len(own)))
            total += len(own) - start
        trained = np.flatnonzero(mask)
        predictors.append(path[trained - 1])
        targets.append(own[trained])
        owners.append(np.full(len(trained), number))
        sampler.append(row.sample.logprobs[trained])
    return PackedRows(
        ids=_join(ids),
        positions=_join(positions),
        spans=tuple(spans),
        predictors=_join(predictors),
        targets=_join(targets),
        owners=_join(owners),
        sampler=np.concatenate(sampler).astype(np.float32) if sampler else np.empty(0, np.float32),
    )


def _join(parts: Sequence[NDArray[np.integer]]) -> Index:
    return np.concatenate(parts).astype(np.int64) if parts else np.empty(0, np.int64)


def micro_batches(rows: Sequence[TrainRow], *, budget: int, share_prefixes: bool) -> list[list[int]]:
    """Deal rows into passes of at most `budget` = rows x longest row, short ones with short ones.

    Returns indices into `rows`, ordered so that rows with a common prefix are neighbours. A group larger than the budget is cut.
    """
    units = list(_units(rows, share_prefixes))
    units.sort(key=lambda unit: max(len(rows[i].sample.ids) for i in unit))
    batches: list[list[int]] = []
    current: list[int] = []
    longest = 0
    for unit in units:
        for piece in _pieces(rows, unit, budget):
            length = max(longest, *(len(rows[i].sample.ids) for i in piece))
            if current and (len(current) + len(piece)) * length > budget:
                batches.append(current)
                current, length = [], max(len(rows[i].sample.ids) for i in piece)
            current, longest = current + piece, length
    return [*batches, current] if current else batches


def _units(rows: Sequence[TrainRow], share_prefixes: bool) -> Iterator[list[int]]:
    """Yield the rows to compute together: the groups, or without sharing each row alone."""
    if not share_prefixes:
        yield from ([i] for i in range(len(rows)))
        return
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.group, []).append(i)
    for members in groups.values():
        # Big-endian bytes of non-negative ids sort as the ids do.
        yield sorted(members, key=lambda i: rows[i].sample.ids.astype(">i4").tobytes())


def _pieces(rows: Sequence[TrainRow], unit: Sequence[int], budget: int) -> Iterator[list[int]]:
    piece: list[int] = []
    longest = 0
    for i in unit:
        length = max(longest, len(rows[i].sample.ids))
        if piece and (len(piece) + 1) * length > budget:
            yield piece
            piece, length = [], len(rows[i].sample.ids)
        piece, longest = [*piece, i], length
    if piece:
        yield piece
