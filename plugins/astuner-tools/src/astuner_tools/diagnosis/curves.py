"""How a metric moved from the beginning of a run to its end, measured against its own noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean, median

from attrs import frozen

from astuner_tools.diagnosis.run_record import RunRecord

MOST_IN_WINDOW = 10
"""Steps at each end whose mean is compared."""
SIGMA = 1.4826
"""Standard deviation of normal noise, in medians of its absolute value."""


@frozen(kw_only=True)
class Ends:
    """A curve by the means of its first and its last steps."""

    first: float
    last: float
    error: float
    """Standard error of their difference."""
    window: int
    """Steps in each mean."""
    steps: int
    """Of the whole curve."""

    @property
    def change(self) -> float:
        """How much the last mean is above the first."""
        return self.last - self.first

    def rose(self, at_least: float = 0.0) -> bool:
        """Whether it rose by more than twice the error, and by this much."""
        return self.change > max(2 * self.error, at_least)

    def fell(self, at_least: float = 0.0) -> bool:
        """Whether it fell by more than twice the error, and by this much."""
        return -self.change > max(2 * self.error, at_least)


def compare_ends(record: RunRecord, metric: str, *, least_steps: int = 4) -> Ends | None:
    """Return the ends of a curve; None if it has fewer steps than `least_steps`."""
    return compare_values([value for _, value in record.read(metric)], least_steps=least_steps)


def compare_values(values: Sequence[float], *, least_steps: int = 4) -> Ends | None:
    """Return the ends of values by step; None if there are fewer than `least_steps`."""
    if len(values) < max(2, least_steps):
        return None
    window = max(1, min(MOST_IN_WINDOW, len(values) // 3))
    first, last = values[:window], values[-window:]
    # Neighbours differ by noise alone, also where the curve rises; a few steep steps do not count as noise.
    leaps = [b - a for a, b in pairwise(values)]
    noise = SIGMA * median(abs(leap - median(leaps)) for leap in leaps) / math.sqrt(2)
    return Ends(first=fmean(first), last=fmean(last), error=noise * math.sqrt(2 / window), window=window, steps=len(values))


def take_late(record: RunRecord, metric: str, window: int = 5) -> float | None:
    """Return the median of the last values of a metric; None if it was not recorded."""
    values = [value for _, value in record.read(metric)[-window:]]
    return median(values) if values else None


def find_best_reward(record: RunRecord) -> float:
    """Return the highest reward that was seen: of an episode, or the mean of a step."""
    rewards = [one.reward for one in (*record.episodes, *record.last_validation) if one.reward is not None]
    means = [value for name in ("reward/mean", "val/reward/mean") for _, value in record.read(name)]
    # Metrics alone still say how far rewards spread.
    spread = [
        mean + deviation for (_, mean), (_, deviation) in zip(record.read("reward/mean"), record.read("reward/std"), strict=False)
    ]
    return max([*rewards, *means, *(spread if not rewards else ())], default=0.0)


def is_solved(record: RunRecord, share: float = 0.9) -> bool:
    """Whether the last steps get nearly all of the reward that is to be had."""
    success = take_late(record, "success/rate", window=3)
    if success is not None:
        return success >= share
    late, best = take_late(record, "reward/mean", window=3), find_best_reward(record)
    return late is not None and best > 0 and late >= share * best


def measure_room(record: RunRecord, start: float) -> float:
    """Return how far a mean reward could still rise from a start."""
    return max(find_best_reward(record) - start, 0.0)
