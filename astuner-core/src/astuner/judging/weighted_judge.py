"""One judge among several, with its terms."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from astuner.config.rewards import Shape
from astuner.protocols import Judge


@frozen
class WeightedJudge:
    """One judge among several, and the terms on which it counts."""

    name: str
    weight: float
    judge: Judge
    requires: Mapping[str, float] = field(factory=dict)
    """By the names of other judges: the least reward from them at which this one is asked."""
    otherwise: float = 0.0
    """The reward it counts with where it was not asked."""
    shape: Shape = field(factory=Shape)
