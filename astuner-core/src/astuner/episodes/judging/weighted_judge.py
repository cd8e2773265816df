"""One judge among several, with its terms."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

from astuner.contract.protocols import Judge
from astuner.settings.config.rewards import Shape


@frozen
class WeightedJudge:
    """One judge among several, and the terms on which it counts."""

    name: str
    weight: float
    judge: Judge
    requires: Mapping[str, float] = field(factory=dict)
    """The least reward, by name of another judge, at which this one judges."""
    otherwise: float = 0.0
    """Its reward if it did not judge."""
    shape: Shape = field(factory=Shape)
