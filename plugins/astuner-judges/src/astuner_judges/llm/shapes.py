"""The forms of the LLM's answers; an answer of another form is asked for again."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, le


@frozen(kw_only=True)
class Scored:
    """One answer on its own."""

    score: float
    rationale: str = ""


@frozen(kw_only=True)
class Compared:
    """Two answers."""

    winner: Literal["first", "second", "tie"]
    rationale: str = ""


@frozen(kw_only=True)
class Ranked:
    """All answers."""

    ranking: tuple[int, ...]
    """Their numbers, from 1, the best first."""
    rationale: str = ""


@cache
def make_score_shape(low: float, high: float) -> type[Scored]:
    """Return the form of a score in a range."""

    @frozen(kw_only=True)
    class ScoredBetween(Scored):
        score: float = field(validator=[ge(low), le(high)])

    return ScoredBetween


@cache
def make_ranking_shape(count: int) -> type[Ranked]:
    """Return the form of a ranking of `count` answers."""

    def is_whole(instance: Any, attribute: Attribute[Any], value: tuple[int, ...]) -> None:
        if sorted(value) != list(range(1, count + 1)):
            raise ValueError(f"has to name each number from 1 to {count} once, got {list(value)}")

    @frozen(kw_only=True)
    class RankedOutOf(Ranked):
        ranking: tuple[int, ...] = field(validator=is_whole)

    return RankedOutOf
