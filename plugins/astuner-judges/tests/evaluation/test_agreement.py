"""The statistics against their definitions, by brute force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner_judges.evaluation.agreement import (
    accuracy,
    average_ranks,
    cohens_kappa,
    count_ordered_pairs,
    kendall_tau_b,
    partial_pearson,
    partial_spearman,
    pearson,
    shares_of_rank,
    spearman,
)
from astuner_judges.evaluation.bootstrap import interval

FEW = st.integers(1, 12)
PAIRS = FEW.flatmap(lambda n: st.tuples(*(st.lists(st.integers(0, 4), min_size=n, max_size=n) for _ in range(2))))
DECISIONS = FEW.flatmap(lambda n: st.tuples(*(st.lists(st.booleans(), min_size=n, max_size=n) for _ in range(2))))


def same(found: float, expected: float) -> bool:
    return (math.isnan(found) and math.isnan(expected)) or found == pytest.approx(expected, abs=1e-12)


@given(both=DECISIONS)
def test_kappa_is_agreement_beyond_what_shuffling_gives(both: tuple[list[bool], list[bool]]) -> None:
    one, other = both
    observed = sum(a == b for a, b in zip(one, other, strict=True)) / len(one)
    # Chance by its definition: every answer of one decider against every one of the other.
    chance = sum(a == b for a, b in itertools.product(one, other)) / len(one) ** 2
    expected = (observed - chance) / (1 - chance) if chance < 1 else math.nan
    assert same(cohens_kappa(one, other), expected)
    assert same(accuracy(one, other), observed)


@given(both=PAIRS)
def test_tau_b_counts_pairs(both: tuple[list[int], list[int]]) -> None:
    one, other = both
    concordant = discordant = only_one = only_other = 0
    for a, b in itertools.combinations(range(len(one)), 2):
        x, y = one[a] - one[b], other[a] - other[b]
        concordant += x * y > 0
        discordant += x * y < 0
        only_one += x != 0 and y == 0
        only_other += x == 0 and y != 0
    untied = (concordant + discordant + only_one) * (concordant + discordant + only_other)
    assert same(kendall_tau_b(one, other), (concordant - discordant) / math.sqrt(untied) if untied else math.nan)


@given(both=PAIRS)
def test_spearman_is_the_correlation_of_ranks_where_ties_share_theirs(both: tuple[list[int], list[int]]) -> None:
    ranks = [[1 + sum(v < w for v in side) + (sum(v == w for v in side) - 1) / 2 for w in side] for side in both]
    assert [list(average_ranks(side)) for side in both] == ranks
    spread = [len(set(side)) > 1 for side in both]
    assert same(spearman(*both), float(np.corrcoef(*ranks)[0, 1]) if all(spread) else math.nan)


@given(values=st.lists(st.integers(-5, 5), min_size=2, max_size=12, unique=True))
def test_a_side_agrees_with_itself_and_not_with_its_reverse(values: list[int]) -> None:
    for statistic in (spearman, kendall_tau_b, pearson):
        assert statistic(values, values) == pytest.approx(1)
        assert statistic(values, [-value for value in values]) == pytest.approx(-1)


@pytest.mark.parametrize("constant", [[], [1.0], [1.0, 1.0]])
def test_a_constant_side_has_no_correlation(constant: Sequence[float]) -> None:
    assert all(math.isnan(statistic(constant, constant)) for statistic in (spearman, kendall_tau_b, pearson))


@given(rows=st.lists(st.tuples(*[st.integers(0, 4)] * 3), min_size=4, max_size=12))
def test_a_partial_correlation_is_that_of_what_a_line_through_the_third_side_leaves(rows: list[tuple[int, int, int]]) -> None:
    x, y, z = (np.array(side, float) for side in zip(*rows, strict=True))
    design = np.column_stack([np.ones(len(z)), z])
    left = [side - design @ np.linalg.lstsq(design, side, rcond=None)[0] for side in (x, y)]
    known = all(float(side @ side) > 1e-9 for side in left)
    assert same(round(partial_pearson(x, y, z), 9), round(float(np.corrcoef(*left)[0, 1]), 9) if known else math.nan)


def test_a_partial_rank_correlation_forgets_the_scale() -> None:
    one, other, third = [1, 3, 2, 5, 4], [2, 1, 5, 3, 4], [1, 1, 2, 2, 3]
    scaled = partial_spearman([value**3 for value in one], [-(10**value) for value in other], [math.exp(v) for v in third])
    assert scaled == pytest.approx(-partial_spearman(one, other, third))


def test_what_follows_the_third_side_altogether_leaves_nothing() -> None:
    assert math.isnan(partial_spearman([1, 2, 3, 4], [4, 1, 3, 2], [10, 20, 30, 40]))
    assert math.isnan(partial_spearman([1, 1, 1, 1], [4, 1, 3, 2], [1, 2, 1, 2]))
    assert partial_spearman([1, 2, 3, 4], [1, 2, 3, 4], [7, 7, 7, 7]) == pytest.approx(1)


def test_kappa_of_deciders_that_only_say_one_thing_is_not_known() -> None:
    assert math.isnan(cohens_kappa([True, True], [True, True]))
    assert cohens_kappa([True, False, True, False], [True, True, False, False]) == 0.0


def test_pairs_with_equal_labels_do_not_count_and_equal_scores_count_half() -> None:
    assert count_ordered_pairs([2, 1, 1], [0.9, 0.5, 0.1]) == (2.0, 2)
    assert count_ordered_pairs([2, 1], [0.5, 0.5]) == (0.5, 1)
    assert count_ordered_pairs([1, 1], [0.9, 0.5]) == (0.0, 0)


def test_shares_of_rank_forget_the_scale() -> None:
    assert list(shares_of_rank([10.0, -3.0, 400.0])) == [0.5, 0.0, 1.0]
    assert list(shares_of_rank([7.0])) == [0.5]


def test_an_interval_holds_the_value_and_is_the_same_for_the_same_seed() -> None:
    hits = np.array([1.0] * 30 + [0.0] * 10)

    def found(seed: int, rows: int = 40) -> tuple[float, float, float]:
        made = interval(lambda at: float(hits[at].mean()), np.arange(rows), seed=seed)
        return made.value, made.low, made.high

    assert found(1) == found(1)
    value, low, high = found(1)
    assert value == 0.75
    # The normal approximation: 1.96 standard errors to each side.
    assert low == pytest.approx(0.75 - 1.96 * math.sqrt(0.75 * 0.25 / 40), abs=0.03)
    assert high == pytest.approx(0.75 + 1.96 * math.sqrt(0.75 * 0.25 / 40), abs=0.03)


def test_answers_to_one_question_are_drawn_together() -> None:
    hits = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    made = interval(lambda at: float(hits[at].mean()), np.array([0, 0, 0, 1, 1, 1]), seed=1)
    assert (made.low, made.high) == (0.0, 1.0)


def test_a_single_question_has_no_interval() -> None:
    made = interval(lambda at: float(at.mean()), np.array([0, 0, 0]), seed=1)
    assert made.value == 1.0
    assert math.isnan(made.low)
    assert math.isnan(made.high)


def test_what_has_no_value_has_no_interval() -> None:
    made = interval(lambda at: math.nan, np.arange(4), seed=1)
    assert math.isnan(made.value)
    assert math.isnan(made.low)
