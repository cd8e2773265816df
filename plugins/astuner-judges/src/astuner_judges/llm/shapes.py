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

    ranking: tuple[int | tuple[int, ...], ...]
    """Their numbers, from 1, the best first; those that are equally good are together in a list of their own."""
    rationale: str = ""

    @property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The numbers of equally good answers, the best first."""
        return tuple(item if isinstance(item, tuple) else (item,) for item in self.ranking)


@frozen(kw_only=True)
class ScoredTogether:
    """All answers, each with a score."""

    scores: tuple[float, ...]
    """Of answer 1, answer 2…, from 0 to 1."""
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

    def is_whole(instance: Ranked, attribute: Attribute[Any], value: tuple[int | tuple[int, ...], ...]) -> None:
        if sorted(number for group in instance.groups for number in group) != list(range(1, count + 1)):
            given = [list(item) if isinstance(item, tuple) else item for item in value]
            raise ValueError(f"has to name each number from 1 to {count} once, got {given}")

    @frozen(kw_only=True)
    class RankedOutOf(Ranked):
        ranking: tuple[int | tuple[int, ...], ...] = field(validator=is_whole)

    return RankedOutOf


@cache
def make_scores_shape(count: int) -> type[ScoredTogether]:
    """Return the form of the scores of `count` answers."""

    def is_whole(instance: Any, attribute: Attribute[Any], value: tuple[float, ...]) -> None:
        if len(value) != count:
            raise ValueError(f"has to hold a score for each of the {count} answers, got {len(value)}")
        if not all(0 <= score <= 1 for score in value):
            raise ValueError(f"has to hold scores from 0 to 1, got {list(value)}")

    @frozen(kw_only=True)
    class ScoredOutOf(ScoredTogether):
        scores: tuple[float, ...] = field(validator=is_whole)

    return ScoredOutOf
