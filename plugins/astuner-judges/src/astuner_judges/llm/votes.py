"""Several answers to one question as one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from statistics import fmean, median
from typing import TypeVar

from astuner_judges.llm.options import VoteAggregation

Answer = TypeVar("Answer", bound=Hashable)


def combine_scores(scores: Sequence[float], how: VoteAggregation) -> float:
    """Return the score that several votes make."""
    if how == "mean":
        return fmean(scores)
    return median(scores) if how == "median" else min(most_frequent(scores))


def most_frequent(votes: Sequence[Answer]) -> list[Answer]:
    """Return the answer with most votes; several if they are equal in number."""
    counted = Counter(votes)
    most = max(counted.values())
    return [answer for answer, count in counted.items() if count == most]


def agreement(votes: Sequence[Hashable]) -> float:
    """Return the share of the votes that gave the most frequent answer."""
    return max(Counter(votes).values()) / len(votes)
