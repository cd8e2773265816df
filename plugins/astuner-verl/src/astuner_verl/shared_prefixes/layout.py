"""Rows laid out in lines: in each, the prefixes that its rows have in common appear once. Imports no torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Index = NDArray[np.int64]


@frozen(kw_only=True, eq=False)
class Lines:
    """Rows in lines of equal length. L lines, N places in each."""

    ids: Index
    """[L, N], 0 where nothing lies"""
    positions: Index
    """[L, N] place of each token in its row"""
    sees: NDArray[np.bool_]
    """[L, N, N] what each token attends to: its own row up to itself; padding sees itself."""
    paths: tuple[Index, ...]
    """Per row [n]: where its tokens lie, as indices into the flattened lines."""
    computed: int
    """Tokens without padding."""


def lay_out(rows: Sequence[Index], *, per_line: int) -> Lines:
    """Lay rows in lines of `per_line` neighbours. Rows that begin alike should be neighbours: they share only within a line.

    Sorted by ids, a row shares with the row before it the longest prefix that it shares with any earlier one.
    """
    lines = [_lay_line(rows[start : start + per_line]) for start in range(0, len(rows), per_line)]
    longest = max(len(ids) for ids, _, _ in lines)
    ids = np.zeros((len(lines), longest), np.int64)
    positions = np.zeros_like(ids)
    sees = np.zeros((len(lines), longest, longest), np.bool_)
    paths: list[Index] = []
    for line, (own_ids, own_positions, own_paths) in enumerate(lines):
        ids[line, : len(own_ids)], positions[line, : len(own_ids)] = own_ids, own_positions
        for path in own_paths:
            sees[line, path[:, None], path[None, :]] |= np.tri(len(path), dtype=np.bool_)
        padding = np.arange(len(own_ids), longest)
        sees[line, padding, padding] = True
        paths += [path + line * longest for path in own_paths]
    computed = sum(len(own_ids) for own_ids, _, _ in lines)
    return Lines(ids=ids, positions=positions, sees=sees, paths=tuple(paths), computed=computed)


def _lay_line(rows: Sequence[Index]) -> tuple[Index, Index, list[Index]]:
    order = sorted(range(len(rows)), key=lambda row: rows[row].astype(">i8").tobytes())
    paths: list[Any] = [None] * len(rows)
    ids: list[Index] = []
    positions: list[Index] = []
    total, before, path = 0, np.empty(0, np.int64), np.empty(0, np.int64)
    for row in order:
        own = rows[row]
        start = count_common(before, own)
        path = np.concatenate([path[:start], np.arange(total, total + len(own) - start)])
        ids.append(own[start:])
        positions.append(np.arange(start, len(own)))
        total += len(own) - start
        before, paths[row] = own, path
    return np.concatenate(ids), np.concatenate(positions), paths


def count_packed(rows: Sequence[Index]) -> int:
    """Return the places that rows take in one line, where common prefixes lie once."""
    return len(_lay_line(rows)[0])


def count_common(a: Index, b: Index) -> int:
    """Return the number of leading ids that two rows share."""
    n = min(len(a), len(b))
    differ = a[:n] != b[:n]
    return int(differ.argmax()) if differ.any() else n


def choose_lines(rows: Sequence[Index], *, together: int, width: int, limit: int) -> Lines:
    """Return the cheapest layout of a pass: each row alone, `together` neighbours in a line, or all rows in one.

    The cost of a layer is about L * N * (6 * width + N), with `width` the size of a hidden state. A layout with more than
    `limit` places, padding included, is not considered, except for the single line, which has no padding.
    """
    found: list[tuple[int, int]] = []
    for per_line in sorted({1, min(together, len(rows)), len(rows)}):
        lengths = [count_packed(rows[start : start + per_line]) for start in range(0, len(rows), per_line)]
        places = len(lengths) * max(lengths)
        if places <= limit or per_line == len(rows):
            found.append((places * (6 * width + max(lengths)), per_line))
    return lay_out(rows, per_line=min(found)[1])
