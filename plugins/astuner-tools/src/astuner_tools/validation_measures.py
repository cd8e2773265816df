"""What a row of a validation says, with 95 % intervals that count each task once."""

from __future__ import annotations

import math

from astuner.runs.store.metric_rows import Row
from astuner_tools.evaluations.statistics import REACH, Figure, estimate_proportion


def measure_reward(row: Row) -> Figure:
    """Return the mean reward with its normal interval; without one if the row has no deviation, or one task."""
    mean, spread, count = row["val/reward/mean"], row.get("val/reward/std"), row.get("val/tasks") or 0
    if spread is None or count < 2:
        return Figure(mean)
    half = REACH * spread / math.sqrt(count)
    return Figure(mean, mean - half, mean + half)


def measure_success(row: Row) -> Figure:
    """Return the share of successes with Wilson's interval; without one if the row counts no tasks."""
    share, count = row["val/success/rate"], row.get("val/tasks") or 0
    return estimate_proportion(share, count) if count >= 1 else Figure(share)


def format_share(share: Figure) -> str:
    """Return a share with its interval, as `8.3 % (4.6–14.7)`."""
    limits = "" if share.low is None or share.high is None else f" ({100 * share.low:.1f}–{100 * share.high:.1f})"
    return f"{100 * share.value:.1f} %{limits}"


def format_mean(mean: Figure, sign: str = "") -> str:
    """Return a mean with its interval, as `0.125 (0.040 to 0.210)`; with `+` as the sign, that of a difference."""
    form = f"{sign}.3f"
    # Equal values have no spread to make an interval of.
    limits = "" if mean.low is None or mean.low == mean.high else f" ({mean.low:{form}} to {mean.high:{form}})"
    return f"{mean.value:{form}}{limits}"
