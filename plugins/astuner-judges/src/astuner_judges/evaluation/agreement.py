"""Agreement of a judge with labels: shares, kappa and rank correlations, each with its formula."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers = Sequence[float] | NDArray[np.float64]
    Decisions = Sequence[bool] | NDArray[np.bool_]

_ROUNDING = 1e-12


def accuracy(labels: Decisions, judged: Decisions) -> float:
    """Return the share of equal decisions; NaN without any."""
    return float(np.mean(np.asarray(labels, bool) == np.asarray(judged, bool))) if len(labels) else math.nan


def cohens_kappa(labels: Decisions, judged: Decisions) -> float:
    """Return agreement beyond chance: 1 is full agreement, 0 chance.

    κ = (p_o - p_e) / (1 - p_e), where p_o is the share of equal decisions and p_e what two deciders with the same shares of each
    decision agree in by chance, the sum over both decisions of the product of their shares (Cohen, Educational and Psychological
    Measurement 20(1), 1960). NaN if p_e is 1: both always decided one way.
    """
    if not len(labels):
        return math.nan
    one, other = np.asarray(labels, bool), np.asarray(judged, bool)
    observed = float(np.mean(one == other))
    expected = float(one.mean() * other.mean() + (1 - one.mean()) * (1 - other.mean()))
    return (observed - expected) / (1 - expected) if expected < 1 else math.nan


def average_ranks(values: Numbers) -> NDArray[np.float64]:
    """Return ranks from 1; equal values share the mean of their ranks."""
    given = np.asarray(values, float)
    _, places, counts = np.unique(given, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks: NDArray[np.float64] = ((last - counts + 1 + last) / 2)[places]
    return ranks


def spearman(one: Numbers, other: Numbers) -> float:
    """Return Pearson's correlation of the average ranks; NaN if one side is constant."""
    return pearson(average_ranks(one), average_ranks(other))


def pearson(one: Numbers, other: Numbers) -> float:
    """Return Σ(x - x̄)(y - ȳ) / √(Σ(x - x̄)² Σ(y - ȳ)²); NaN if one side is constant."""
    if len(one) < 2:
        return math.nan
    x, y = np.asarray(one, float) - np.mean(one), np.asarray(other, float) - np.mean(other)
    scale = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / scale if scale > 0 else math.nan


def partial_pearson(one: Numbers, other: Numbers, given: Numbers) -> float:
    """Return the correlation of two sides with a third one held fixed.

    (r_xy - r_xz r_yz) / √((1 - r_xz²)(1 - r_yz²)), where z is the third (Yule, Proceedings of the Royal Society A 79, 1907). NaN
    if x or y is constant, or determined by z; if z is constant, it is r_xy.
    """
    both, x_given, y_given = pearson(one, other), pearson(one, given), pearson(other, given)
    if math.isnan(both) or (math.isnan(x_given) and math.isnan(y_given)):
        return both
    left = (1 - x_given**2) * (1 - y_given**2)
    # A side determined by the third one leaves only rounding errors.
    return (both - x_given * y_given) / math.sqrt(left) if left > _ROUNDING else math.nan


def partial_spearman(one: Numbers, other: Numbers, given: Numbers) -> float:
    """Return `partial_pearson` of the average ranks.

    It is Spearman's partial correlation (Kim, Communications for Statistical Applications and Methods 22(6), 2015).
    """
    return partial_pearson(average_ranks(one), average_ranks(other), average_ranks(given))


def kendall_tau_b(one: Numbers, other: Numbers) -> float:
    """Return (P - Q) / √((P + Q + T)(P + Q + U)) over all pairs; NaN if one side is constant.

    P pairs are ordered the same way by both, Q the other way, T are ties on the first side only and U on the second only
    (Kendall, Biometrika 33(3), 1945).
    """
    x, y = np.asarray(one, float), np.asarray(other, float)
    same = both_x = both_y = 0.0
    for place in range(len(x) - 1):  # a row of pairs at a time, so that memory stays linear
        by_x, by_y = np.sign(x[place + 1 :] - x[place]), np.sign(y[place + 1 :] - y[place])
        same += float(by_x @ by_y)
        both_x += float(by_x @ by_x)
        both_y += float(by_y @ by_y)
    scale = math.sqrt(both_x * both_y)
    return same / scale if scale > 0 else math.nan


def count_ordered_pairs(labels: Numbers, judged: Numbers) -> tuple[float, int]:
    """Return how many pairs with different labels the judge orders the same way (equal scores count half), and of how many."""
    x, y = np.asarray(labels, float), np.asarray(judged, float)
    by_label = np.sign(x[:, None] - x[None, :])
    above = by_label > 0
    by_judge = np.sign(y[:, None] - y[None, :])[above]
    return float(np.sum(by_judge > 0) + np.sum(by_judge == 0) / 2), int(above.sum())


def shares_of_rank(values: Numbers) -> NDArray[np.float64]:
    """Return average ranks as shares from 0 to 1, whatever the scale of the values; 0.5 for a single one."""
    if len(values) < 2:
        return np.full(len(values), 0.5)
    shares: NDArray[np.float64] = (average_ranks(values) - 1) / (len(values) - 1)
    return shares
