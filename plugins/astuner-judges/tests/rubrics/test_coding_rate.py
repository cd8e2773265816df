"""The coding rate against its formula, and what it is used for: repeating adds nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from astuner_judges.rubrics.coding_rate import EPSILON, coding_rate, rank_of_span

VECTORS = st.integers(1, 6).flatmap(
    lambda count: arrays(np.float64, (count, 4), elements=st.floats(-1, 1, allow_subnormal=False, width=32))
)


@given(vectors=VECTORS, epsilon=st.floats(0.1, 2))
def test_it_is_the_formula_of_the_paper(vectors: np.ndarray, epsilon: float) -> None:
    z = vectors.T  # d × n, as the paper writes it
    dimensions, count = z.shape
    expected = 0.5 * np.log(np.linalg.det(np.eye(dimensions) + dimensions / (count * epsilon**2) * z @ z.T))
    assert coding_rate(vectors, dimensions, epsilon) == pytest.approx(expected, rel=1e-6, abs=1e-6)


@given(vector=arrays(np.float64, 4, elements=st.floats(0.1, 1)), copies=st.integers(2, 5))
def test_a_duplicate_adds_nothing(vector: np.ndarray, copies: int) -> None:
    once, often = vector[None, :], np.repeat(vector[None, :], copies, axis=0)
    assert coding_rate(often, 4) == pytest.approx(coding_rate(once, 4), abs=1e-9)


@given(vectors=VECTORS, seed=st.integers(0, 99))
def test_the_order_does_not_matter(vectors: np.ndarray, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(vectors)
    assert coding_rate(shuffled, 4) == pytest.approx(coding_rate(vectors, 4), abs=1e-9)


@given(vectors=VECTORS)
def test_coordinates_that_are_zero_for_all_do_not_matter(vectors: np.ndarray) -> None:
    wider = np.hstack([vectors, np.zeros((len(vectors), 9))])
    assert coding_rate(wider, 4) == pytest.approx(coding_rate(vectors, 4), abs=1e-9)


def test_a_vector_at_right_angles_adds_more_than_one_that_is_close() -> None:
    base, close, other = np.eye(3)[0], np.array([0.99, 0.141, 0]), np.eye(3)[1]
    rates = [coding_rate(np.array([base, further]), 3) for further in (base, close, other)]
    assert rates == sorted(rates)
    assert rates[0] < rates[1] < rates[2]


def test_nothing_takes_no_code() -> None:
    assert coding_rate(np.zeros((0, 4)), 4) == 0.0
    assert coding_rate(np.zeros((3, 4)), 4) == 0.0


def test_the_distortion_is_documented_by_its_value() -> None:
    assert coding_rate(np.eye(1), 1) == pytest.approx(0.5 * np.log(1 + 1 / EPSILON**2))


def test_hashed_vectors_take_up_no_more_dimensions_than_there_are() -> None:
    vectors = np.zeros((3, 2048))
    vectors[0, 5] = vectors[1, 5] = vectors[2, 9] = 1.0
    assert rank_of_span(vectors) == 2
