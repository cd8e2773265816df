"""Wraps the estimator: one very good or very bad answer does not outweigh all others."""

from __future__ import annotations

from collections.abc import Generator, Sequence

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from astuner import hookimpl
from astuner.contract.protocols import Estimator, EstimatorTraits, read_traits

MOST = 3.0


class ClippedAdvantages:
    @hookimpl(wrapper=True)
    def astuner_make_estimator(self) -> Generator[None, Estimator, Estimator]:
        made = yield
        return _Clipped(made)


class _Clipped:
    def __init__(self, inner: Estimator) -> None:
        self._inner = inner
        self.traits = evolve(read_traits(inner, EstimatorTraits), weighs_tokens=False)  # it has `advantages` only

    def advantages(self, groups: Sequence[NDArray[np.float64]]) -> Sequence[NDArray[np.float64]]:
        return [np.clip(group, -MOST, MOST) for group in self._inner.advantages(groups)]
