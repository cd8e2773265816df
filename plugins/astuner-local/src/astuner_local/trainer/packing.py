"""Rows laid out as one flat list of tokens, in which a group's common prefixes appear once.

Sorted by ids, a row shares with the row before it the longest prefix that it shares with any earlier one. So a row's *path*
(for each of its positions, where in the flat list that token lies) is the head of the previous path followed by the row's own
tokens: a trie, built in one pass. A row without own tokens, a duplicate of another, costs nothing but its part of the loss.
The last trained token of a row, and what follows it, predicts nothing: it is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

from astuner_local.trainer.pass_size import PassLimit, PassSize, measure_span
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

    def measure(self) -> PassSize:
        """Return the size of the pass."""
        return sum((measure_span(span.start, len(span.path)) for span in self.spans), PassSize())


def common_prefix(a: NDArray[np.int32], b: NDArray[np.int32]) -> int:
    """Return the number of leading ids that two rows share."""
    n = min(len(a), len(b))
    differ = a[:n] != b[:n]
    return int(differ.argmax()) if differ.any() else n


def read_context(row: TrainRow) -> NDArray[np.int32]:
    """Return the ids of a row that are needed to predict its trained tokens: those before the last of them."""
    trained = np.flatnonzero(row.sample.mask)
    return row.sample.ids[: trained[-1] if len(trained) else 0]


def pack(rows: Sequence[TrainRow], *, share_prefixes: bool) -> PackedRows:
    """Lay out rows in their order. Only neighbours of one group share: `micro_batches` orders them so that this finds all."""
    ids, positions, predictors, targets, owners, sampler, spans = [], [], [], [], [], [], []
    path: Index = np.empty(0, np.int64)
    total, contexts = 0, [read_context(row) for row in rows]
    for number, row in enumerate(rows):
        own, mask = contexts[number], row.sample.mask
        start = 0
        if share_prefixes and number and rows[number - 1].group == row.group:
            start = common_prefix(contexts[number - 1], own)
        path = np.concatenate([path[:start], np.arange(total, total + len(own) - start)])
        if start < len(own):
            spans.append(Span(path=path, start=start))
            ids.append(own[start:])
            positions.append(np.arange(start, len(own)))
            total += len(own) - start
        trained = np.flatnonzero(mask)
        predictors.append(path[trained - 1])
        targets.append(row.sample.ids[trained])
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


def micro_batches(rows: Sequence[TrainRow], *, limit: PassLimit, share_prefixes: bool) -> list[list[int]]:
    """Deal rows into passes of at most `limit.tokens`, short ones with short ones.

    Returns indices into `rows`, ordered so that rows with a common prefix are neighbours. A group larger than the limit is cut
    where that computes the fewest tokens again, which is between branches near the root; a row is never cut.
    """
    contexts = [read_context(row) for row in rows]
    units = list(_units(rows, contexts, share_prefixes))
    units.sort(key=lambda unit: max(len(contexts[i]) for i in unit))
    batches: list[list[int]] = []
    held = PassSize()
    for unit in units:
        for number, (piece, size) in enumerate(_cut(unit, [contexts[i] for i in unit], limit)):
            # Neighbours of a group share, and pieces of one do not fit together.
            if batches and not number and (held + size).count(limit) <= limit.tokens:
                batches[-1] += piece
                held += size
            else:
                batches.append(piece)
                held = size
    return batches


def _units(rows: Sequence[TrainRow], contexts: Sequence[NDArray[np.int32]], share_prefixes: bool) -> Iterator[list[int]]:
    """Yield the rows to compute together: the groups, or without sharing each row alone."""
    if not share_prefixes:
        yield from ([i] for i in range(len(rows)))
        return
    groups: dict[str, list[int]] = {}
    for i, row in enumerate(rows):
        groups.setdefault(row.group, []).append(i)
    for members in groups.values():
        # Big-endian bytes of non-negative ids sort as the ids do.
        yield sorted(members, key=lambda i: contexts[i].astype(">i4").tobytes())


def _cut(unit: Sequence[int], ids: Sequence[NDArray[np.int32]], limit: PassLimit) -> Iterator[tuple[list[int], PassSize]]:
    """Yield pieces of a unit, whose rows are sorted, and their sizes. A cut computes again what the rows around it share."""
    shared = [0, *(common_prefix(before, row) for before, row in pairwise(ids))]
    lengths = [len(row) for row in ids]
    whole = _measure(shared, lengths)
    if len(unit) == 1 or whole.count(limit) <= limit.tokens:
        yield list(unit), whole
        return
    # Of all ways to end a piece before row `end`: the tokens computed again, the number of pieces, and where the last one starts.
    best = [(0, 0, 0)]
    for end in range(1, len(unit) + 1):
        tail, ways = PassSize(), list[tuple[int, int, int]]()
        for start in range(end - 1, -1, -1):
            if ways and (measure_span(0, lengths[start]) + tail).count(limit) > limit.tokens:
                break
            again, pieces, _ = best[start]
            ways.append((again + shared[start], pieces + 1, start))
            tail += measure_span(shared[start], lengths[start])
        best.append(min(ways))
    cuts = [len(unit)]
    while cuts[-1]:
        cuts.append(best[cuts[-1]][2])
    for start, end in pairwise(reversed(cuts)):
        yield list(unit[start:end]), _measure([0, *shared[start + 1 : end]], lengths[start:end])


def _measure(shared: Sequence[int], lengths: Sequence[int]) -> PassSize:
    return sum(map(measure_span, shared, lengths), PassSize())
