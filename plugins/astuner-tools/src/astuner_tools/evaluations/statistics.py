"""Intervals and tests of scores by task. A task is the unit: the episodes of one task are not independent of each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

LEVEL = 0.95
POWER = 0.8
REACH = NormalDist().inv_cdf((1 + LEVEL) / 2)
"""Standard deviations of a normal distribution on each side of its mean that hold this level."""
RESAMPLES = 10_000
DRAWN_AT_ONCE = 2_000_000
"""Indices in memory while resampling."""


@frozen
class Figure:
    """A figure and its 95 % interval; the limits are None where the data does not give them."""

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of 0."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def estimate_mean(values: Sequence[float], seed: int) -> Figure:
    """Return the mean with the percentile interval of the bootstrap over tasks (Efron and Tibshirani 1993, chapter 13).

    Of the differences of pairs it is the paired bootstrap. The same seed gives the same interval; a single task has none.
    """
    found = np.asarray(values, np.float64)
    if len(found) < 2:
        return Figure(float(found.mean()))
    low, high = np.quantile(_resample_means(found, seed), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Figure(float(found.mean()), float(low), float(high))


def _resample_means(values: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    draw, means, left = np.random.default_rng(seed), [], RESAMPLES
    while left:
        rows = min(left, max(1, DRAWN_AT_ONCE // len(values)))
        means.append(values[draw.integers(len(values), size=(rows, len(values)))].mean(1))
        left -= rows
    return np.concatenate(means)


def estimate_share(shares: Sequence[float], episodes: Sequence[int]) -> Figure:
    """Return the share of successful episodes with Wilson's score interval (Wilson 1927), from the share and number by task.

    The number of trials is that of independent ones with the same variance (Kish 1965), so it lies between that of the tasks, if
    the episodes of each task all end alike, and that of the episodes.
    """
    weights = np.asarray(episodes, np.float64)
    found = np.asarray(shares, np.float64)
    total, tasks = float(weights.sum()), len(found)
    share = float((found * weights).sum() / total)
    variance = float((((found - share) * weights) ** 2).sum()) / total**2 * (tasks / (tasks - 1) if tasks > 1 else 1.0)
    if share in (0.0, 1.0):
        trials = float(tasks)
    else:
        trials = min(total, max(float(tasks), share * (1 - share) / variance)) if variance > 0 else total
    return estimate_proportion(share, trials)


def estimate_proportion(share: float, trials: float) -> Figure:
    """Return a share of independent trials with Wilson's score interval (Wilson 1927)."""
    middle = (share + REACH**2 / (2 * trials)) / (1 + REACH**2 / trials)
    half = REACH / (1 + REACH**2 / trials) * math.sqrt(share * (1 - share) / trials + REACH**2 / (4 * trials**2))
    return Figure(share, max(0.0, middle - half), min(1.0, middle + half))


def compute_sign_test(better: int, worse: int) -> float:
    """Return the two-sided p-value of the exact sign test: as many tasks better or worse by chance alone.

    With one episode by task it is McNemar's exact test (McNemar 1947): tasks that both solve, or neither, say nothing.
    """
    count = better + worse
    tail = sum(math.comb(count, k) for k in range(min(better, worse) + 1))
    return min(1.0, float(2 * tail / 2**count))


def count_missing_tasks(differences: Sequence[float]) -> int | None:
    """Return how many more tasks would show a difference of this size in four of five evaluations; None without one.

    The usual sample size of a paired comparison, ((z₀.₉₇₅ + z₀.₈) · s / d)², as in Miller, "Adding Error Bars to Evals" (2024,
    arXiv 2411.00640), section 5.
    """
    found = np.asarray(differences, np.float64)
    if len(found) < 2 or found.mean() == 0:
        return None
    reach = REACH + NormalDist().inv_cdf(POWER)
    needed = math.ceil((reach * float(found.std(ddof=1)) / float(found.mean())) ** 2)
    return max(1, needed - len(found))
