"""Confidence intervals of figures from few labelled examples."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from attrs import frozen

if TYPE_CHECKING:
    from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95


@frozen
class Interval:
    """A figure, and its likely range for other examples of the same kind."""

    value: float
    low: float
    high: float


def interval(
    statistic: Callable[[NDArray[np.intp]], float], clusters: NDArray[np.intp], *, seed: int, resamples: int = RESAMPLES
) -> Interval:
    """Return a statistic of rows with its 95 % percentile interval over resamples of whole clusters.

    `clusters` has the number of the cluster, from 0, of each row: answers to one question are drawn together, since their
    verdicts are not independent. Resamples without a value (one side is constant) are left out. A single cluster has no
    interval (NaN): it does not show how clusters differ. The same seed gives the same interval.
    """
    value = statistic(np.arange(len(clusters)))
    if math.isnan(value) or len(np.unique(clusters)) < 2:
        return Interval(value, math.nan, math.nan)
    rows = [np.flatnonzero(clusters == number) for number in range(int(clusters.max()) + 1)]
    draw = np.random.default_rng(seed)
    found = (statistic(np.concatenate([rows[n] for n in draw.integers(len(rows), size=len(rows))])) for _ in range(resamples))
    known = [one for one in found if not math.isnan(one)]
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if known else (math.nan, math.nan)
    return Interval(value, float(low), float(high))
