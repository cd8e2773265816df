"""Tokens by their covariance: which are chosen, and what becomes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from attrs import evolve
from made_up_outcomes import advantages_of, play

from astuner_algorithms.covariance import ClipCov, KlCov
from astuner_devkit.contracts import EstimatorContract


class TestClipCov(EstimatorContract):
    component = "astuner_algorithms.covariance:ClipCov"


class TestKlCov(EstimatorContract):
    component = "astuner_algorithms.covariance:KlCov"


@pytest.fixture
def siblings() -> list[Any]:
    """Advantages ±0.7071; log μ -1, -3 and -2, -2, with a mean of -2: the covariances are .71, -.71, 0 and 0."""
    good, bad = play(1.0), play(0.0)
    return [evolve(good, logprobs=np.array([-1.0, -3.0])), evolve(bad, logprobs=np.array([-2.0, -2.0]))]


def test_the_highest_covariance_is_left_out(siblings: list[Any]) -> None:
    (found,) = ClipCov(ClipCov.Options(share=0.25, low=0.5)).signal([siblings])
    assert advantages_of(found) == [[0.0, 0.7071], [-0.7071, -0.7071]]


@pytest.mark.parametrize("bounds", [{"low": 0.8}, {"low": 0.1, "high": 0.7}])
def test_nothing_is_left_out_beyond_the_bounds(siblings: list[Any], bounds: dict[str, float]) -> None:
    (found,) = ClipCov(ClipCov.Options(share=1.0, **bounds)).signal([siblings])
    assert advantages_of(found) == [[0.7071, 0.7071], [-0.7071, -0.7071]]


def test_the_highest_covariance_is_held(siblings: list[Any]) -> None:
    (found,) = KlCov(KlCov.Options(share=0.25, weight=2.0)).signal([siblings])
    assert advantages_of(found) == [[0.7071, 0.7071], [-0.7071, -0.7071]]
    assert [np.asarray(one.divergence).tolist() for one in found] == [[2.0, 0.0], [0.0, 0.0]]
    assert {one.reference for one in found} == {"sampler"}
