"""Which of the verified rubrics are kept: those that agree with the labels and do not repeat each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field, frozen

from astuner_judges.rubrics.coding_rate import coding_rate, rank_of_span
from astuner_judges.rubrics.evidence import Evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

_EQUAL = 9
"""Decimals to which two gains are compared: differences beyond them are rounding errors."""


@frozen(kw_only=True)
class Candidate:
    """A verified rubric with its results on other examples."""

    text: str
    evidence: Evidence


@define(eq=False, kw_only=True)
class Selection:
    """Adds rubrics greedily, in rounds: each time the one that raises the coding rate of the set most.

    A rubric's vector has the length of its `skill`: one that grades other examples no better than by chance adds nothing.
    Ties go to the rubric with more agreement, then to the first in alphabetical order.
    """

    per_round: int
    most: int
    min_increment: float
    chosen: list[Candidate] = field(factory=list)

    def add(self, candidates: Sequence[Candidate], vectors: NDArray[np.float64]) -> float:
        """Take up to `per_round` of the candidates, which include those already chosen; return what they add, in nats.

        `vectors` are those of the candidates, of length one. Each rubric must add at least `min_increment`.
        """
        weighed = vectors * np.array([[candidate.evidence.skill] for candidate in candidates])
        dimensions = rank_of_span(weighed)
        places = {candidate.text: place for place, candidate in enumerate(candidates)}
        taken = [places[candidate.text] for candidate in self.chosen]
        before = rate = coding_rate(weighed[taken], dimensions)
        for _ in range(self.per_round):
            left = [place for place in range(len(candidates)) if place not in taken]
            if not left or len(taken) >= self.most:
                break
            gains = {place: round(coding_rate(weighed[[*taken, place]], dimensions) - rate, _EQUAL) for place in left}
            best = min(left, key=lambda place: (-gains[place], -candidates[place].evidence.agreement, candidates[place].text))
            if gains[best] < self.min_increment or gains[best] <= 0:
                break
            taken.append(best)
            self.chosen.append(candidates[best])
            rate = coding_rate(weighed[taken], dimensions)
        return rate - before
