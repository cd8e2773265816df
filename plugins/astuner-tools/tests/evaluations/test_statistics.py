"""Intervals and tests of scores, against published formulas and numbers computed by hand."""

from __future__ import annotations

import pytest

from astuner_tools.evaluations.statistics import (
    Figure,
    compute_sign_test,
    count_missing_tasks,
    estimate_mean,
    estimate_share,
)


@pytest.mark.parametrize(("right", "low", "high"), [(10, 0.046, 0.147), (119, 0.954, 0.999), (0, 0.0, 0.031), (120, 0.969, 1.0)])
def test_the_interval_of_a_share_is_wilsons(right: int, low: float, high: float) -> None:
    found = estimate_share([1.0] * right + [0.0] * (120 - right), [1] * 120)
    assert (found.value, found.low, found.high) == (
        right / 120,
        pytest.approx(low, abs=6e-4),
        pytest.approx(high, abs=6e-4),
    )


def test_episodes_that_end_alike_within_a_task_count_once() -> None:
    alike = estimate_share([1.0, 0.0] * 20, [8] * 40)
    once = estimate_share([1.0, 0.0] * 20, [1] * 40)
    independent = estimate_share([0.5] * 40, [8] * 40)
    assert (alike.low, alike.high) == (pytest.approx(once.low), pytest.approx(once.high))
    assert independent.low is not None
    assert alike.low is not None
    assert independent.low > alike.low


def test_the_sign_test_is_mcnemars_exact_one() -> None:
    assert compute_sign_test(10, 2) == pytest.approx(2 * (1 + 12 + 66) / 2**12)
    assert compute_sign_test(3, 3) == 1.0
    assert compute_sign_test(0, 0) == 1.0
    assert 0 < compute_sign_test(900, 0) < 1e-200


def test_the_bootstrap_is_seeded_and_close_to_the_normal_interval() -> None:
    values = [0.0, 1.0] * 200
    found = estimate_mean(values, 3)
    assert found == estimate_mean(values, 3)
    assert found != estimate_mean(values, 4)
    assert (found.low, found.high) == (pytest.approx(0.451, abs=0.006), pytest.approx(0.549, abs=0.006))


def test_a_single_task_has_no_interval() -> None:
    assert estimate_mean([0.5], 0) == Figure(0.5)
    assert not estimate_mean([0.5], 0).excludes_zero
    assert count_missing_tasks([0.5]) is None


def test_missing_tasks_are_those_of_the_usual_sample_size() -> None:
    differences = [1.0] * 12 + [-1.0] * 8  # mean 0.2, standard deviation 1.0052
    assert count_missing_tasks(differences) == pytest.approx((1.95996 + 0.84162) ** 2 * 1.0105 / 0.04 - 20, abs=1)
    assert count_missing_tasks([1.0, -1.0]) is None
