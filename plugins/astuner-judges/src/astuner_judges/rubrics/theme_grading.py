"""Grading by all themes: divided among a few requests, and combined into one score."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Literal

from attrs import evolve, frozen

from astuner_judges.rubrics.grading import Grader
from astuner_judges.rubrics.rubric import Theme


@frozen(kw_only=True)
class Grade:
    """The score of one answer."""

    score: float
    by_theme: Mapping[str, float]
    reasons: Mapping[str, str]
    position_bias: float | None = None
    """The share of the other answers, over all themes, that changed sides in another order; None for a single answer."""

    def raise_above_one_more(self, low: float, high: float, others: int) -> Grade:
        """Return the grade among `others` other answers, one of which was not ranked and is beaten."""

        def rescale(score: float) -> float:
            return low + ((score - low) * (others - 1) + high - low) / others

        return evolve(self, score=rescale(self.score), by_theme={name: rescale(score) for name, score in self.by_theme.items()})


@frozen(kw_only=True)
class Panels:
    """Asks several times, each time with some of the themes, so that a single odd verdict does not decide."""

    grader: Grader
    themes: tuple[Theme, ...]
    requests: int
    combine: Literal["median", "mean"]

    async def grade(self, query: str, answers: Sequence[str]) -> list[Grade]:
        """Return a grade per answer; raises `LLMFailed` and `LLMBudgetSpent` when any request has no answer."""
        parts = deal_out(self.themes, self.requests)
        found = await asyncio.gather(*(self.grader.grade(part, query, answers) for part in parts))
        scores = {theme.name: graded.scores[n] for part, graded in zip(parts, found, strict=True) for n, theme in enumerate(part)}
        reasons = {
            theme.name: graded.reasons[n] for part, graded in zip(parts, found, strict=True) for n, theme in enumerate(part)
        }
        biases = [of_theme for graded in found for of_theme in graded.position_bias or ()]
        put_together = median if self.combine == "median" else fmean
        return [
            Grade(
                score=float(put_together([scores[theme.name][place] for theme in self.themes])),
                by_theme={theme.name: scores[theme.name][place] for theme in self.themes},
                reasons={theme.name: reasons[theme.name][place] for theme in self.themes},
                position_bias=fmean(of_theme[place] for of_theme in biases) if biases else None,
            )
            for place in range(len(answers))
        ]


def deal_out(themes: Sequence[Theme], requests: int) -> list[list[Theme]]:
    """Return the themes in `requests` parts of about the same size, as cards are dealt."""
    count = min(requests, len(themes))
    return [list(themes[start::count]) for start in range(count)]
