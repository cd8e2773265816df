"""The JSON that the LLM answers with, checked against what was asked."""

from __future__ import annotations

from functools import cache
from typing import Any

import attrs
from attrs import field, frozen
from attrs.validators import min_len


@frozen(kw_only=True)
class Proposals:
    """Rubrics that were proposed."""

    rubrics: tuple[str, ...] = field(validator=min_len(1))


@frozen(kw_only=True)
class Revision:
    """A rubric that was rewritten."""

    rubric: str = field(validator=min_len(1))


@frozen(kw_only=True)
class ThemeScore:
    """How good an answer is by one theme."""

    rubric: int
    """The theme's number in the prompt, from 1."""
    score: float
    reason: str = ""


@frozen(kw_only=True)
class ThemeRanks:
    """The ranks of answers by one theme."""

    rubric: int
    ranks: tuple[float, ...]
    """Of answer 1, answer 2…; 1 is the best, and equal ones share a rank."""
    reason: str = ""


@frozen(kw_only=True)
class ThemeOfRubrics:
    """Several rubrics under one heading."""

    name: str
    theme: str = field(validator=min_len(1))
    rubrics: tuple[int, ...] = field(validator=min_len(1))


@cache
def scores_shape(themes: int, low: float, high: float) -> type[Any]:
    """Return the class of an answer with one score for each theme."""

    def complete(instance: Any, attribute: Any, value: tuple[ThemeScore, ...]) -> None:
        _check_each_once([verdict.rubric for verdict in value], themes, "rubric")
        for verdict in value:
            if not low <= verdict.score <= high:
                raise ValueError(f"the score {verdict.score:g} of rubric {verdict.rubric} is not between {low:g} and {high:g}")

    return _shape("Scores", "verdicts", tuple[ThemeScore, ...], complete)


@cache
def ranks_shape(themes: int, answers: int) -> type[Any]:
    """Return the class of an answer with the ranks of all answers for each theme."""

    def complete(instance: Any, attribute: Any, value: tuple[ThemeRanks, ...]) -> None:
        _check_each_once([verdict.rubric for verdict in value], themes, "rubric")
        for verdict in value:
            if len(verdict.ranks) != answers:
                raise ValueError(f"rubric {verdict.rubric} has {len(verdict.ranks)} ranks for {answers} answers")

    return _shape("Ranks", "verdicts", tuple[ThemeRanks, ...], complete)


@cache
def themes_shape(rubrics: int, most: int) -> type[Any]:
    """Return the class of an answer that puts each rubric under one of at most `most` themes."""

    def complete(instance: Any, attribute: Any, value: tuple[ThemeOfRubrics, ...]) -> None:
        if len(value) > most:
            raise ValueError(f"there are {len(value)} themes, and at most {most} are wanted")
        _check_each_once([number for theme in value for number in theme.rubrics], rubrics, "rubric")

    return _shape("Themes", "themes", tuple[ThemeOfRubrics, ...], complete)


def _shape(name: str, key: str, kind: Any, check: Any) -> type[Any]:
    return attrs.make_class(name, {key: field(type=kind, validator=check)}, frozen=True, kw_only=True)


def _check_each_once(numbers: list[int], count: int, what: str) -> None:
    if sorted(numbers) != list(range(1, count + 1)):
        raise ValueError(f"each {what} from 1 to {count} is wanted exactly once, and there are {sorted(numbers)}")
