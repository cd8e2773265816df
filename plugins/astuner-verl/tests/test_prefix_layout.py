"""Rows in lines: every token sees its own row up to itself, and common prefixes lie in a line once."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_verl.rows import TrainRow, arrange, choose_units, sort_by_prefix
from astuner_verl.shared_prefixes.layout import choose_lines, count_packed, lay_out

rows_of_ids = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=8).map(np.array), min_size=1, max_size=7)


@given(rows_of_ids, st.integers(1, 7))
def test_each_token_sees_its_row_up_to_itself(rows: list[np.ndarray], per_line: int) -> None:
    lines = lay_out(rows, per_line=per_line)
    size = lines.ids.shape[1]
    for row, path in zip(rows, lines.paths, strict=True):
        assert lines.ids.flatten()[path].tolist() == row.tolist()
        assert lines.positions.flatten()[path].tolist() == list(range(len(row)))
        for place, at in enumerate(path):
            line, column = divmod(int(at), size)
            seen = np.flatnonzero(lines.sees[line, column]) + line * size
            assert set(seen.tolist()) == set(path[: place + 1].tolist())
    assert lines.sees.any(-1).all(), "attention over nothing is not a number"


@given(rows_of_ids)
def test_a_prefix_lies_in_a_line_once(rows: list[np.ndarray]) -> None:
    prefixes = {tuple(row[:end]) for row in rows for end in range(1, len(row) + 1)}
    assert lay_out(rows, per_line=len(rows)).computed == len(prefixes)


@pytest.mark.parametrize(
    ("width", "limit", "shape"),
    [
        # Two tasks of two rows: 10 common tokens, 2 of their own.
        (1000, 10**6, (2, 14)),
        # Two lines have 28 places.
        (1000, 20, (1, 28)),
    ],
)
def test_the_cheapest_layout_with_room_is_taken(width: int, limit: int, shape: tuple[int, int]) -> None:
    rows = [np.array([task] * 10 + [task, own]) for task in (1, 2) for own in (3, 4)]
    rows = [np.concatenate([row[:10], [own, own]]) for row, own in zip(rows, (3, 4, 3, 4), strict=True)]
    assert choose_lines(rows, together=2, width=width, limit=limit).ids.shape == shape


def test_rows_with_little_in_common_stay_alone_where_attention_costs_most() -> None:
    rows = [np.arange(100) + 1000 * number for number in range(4)]
    assert choose_lines(rows, together=4, width=1, limit=10**6).ids.shape == (4, 100)


lengths = st.lists(st.integers(1, 50), min_size=1, max_size=40)


@given(lengths, st.integers(1, 5), st.integers(1, 6))
def test_neighbours_stay_neighbours(sizes: list[int], workers: int, together: int) -> None:
    neighbours = list(reversed(range(len(sizes))))
    order = arrange(sizes, neighbours, workers, together=together)
    assert sorted(place for place in order if place is not None) == list(range(len(sizes)))
    assert len(order) % (workers * together) == 0
    if together > 1:
        units = {tuple(order[start : start + together]) for start in range(0, len(order), together)}
        for start in range(0, len(sizes), together):
            unit = neighbours[start : start + together]
            assert (*unit, *[None] * (together - len(unit))) in units


def make_row(*ids: int) -> TrainRow:
    empty = np.zeros(1, np.float32)
    return TrainRow(ids=np.array(ids), start=1, mask=empty > 0, logprobs=empty, advantages=empty, share=0.0)


def test_rows_that_begin_alike_become_neighbours() -> None:
    rows = [make_row(300, 1), make_row(5, 9), make_row(300, 0), make_row(5, 2, 1)]
    assert sort_by_prefix(rows) == [3, 1, 2, 0]


def test_a_group_stays_together_whose_common_prompt_has_room_once() -> None:
    rows = [make_row(*range(2000), *[3000 + own] * 32) for own in range(8)]
    together, order, stretch = choose_units(rows, 1, most=8, limit=4158)
    assert (together, sorted(order)) == (8, list(range(8)))
    assert stretch == 8 * 2032 / (2000 + 8 * 32)
    assert choose_units(rows, 1, most=8, limit=2100)[0] == 3


def test_verl_takes_a_unit_that_shares_more_than_the_others() -> None:
    alike, different = [make_row(*[1] * 8), make_row(*[1] * 8)], [make_row(*[2] * 4), make_row(*[3] * 4)]
    # Both pairs have room, but verl, which counts 16 ids in the first, may count no more than 8.
    together, _, stretch = choose_units(alike + different, 1, most=2, limit=8)
    assert (together, stretch) == (1, 1.0)


@given(rows_of_ids, st.integers(1, 3), st.integers(1, 6), st.integers(8, 30))
def test_what_is_computed_has_room_where_verl_counts_the_stretched_limit(
    ids: list[np.ndarray], workers: int, most: int, limit: int
) -> None:
    together, order, stretch = choose_units([make_row(*row) for row in ids], workers, most=most, limit=limit)
    placed = [min(ids, key=len) if place is None else ids[place] for place in order]
    units = [placed[start : start + together] for start in range(0, len(placed), together)]
    counted = int(limit * stretch)
    assert all(sum(map(len, unit)) <= counted for unit in units)
    for first, second in combinations(units, 2):
        assert sum(map(len, first + second)) > counted or count_packed(first) + count_packed(second) <= limit
