"""Grading by all themes: shared out among a few requests, and put together to one score."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Literal

from attrs import frozen

from astuner_judges.rubrics.grading import Grader
from astuner_judges.rubrics.rubric import Theme


@frozen(kw_only=True)
class Grade:
    """What one answer got."""

    score: float
    by_theme: Mapping[str, float]
    reasons: Mapping[str, str]


@frozen(kw_only=True)
class Panels:
    """Asks several times, each time with some of the themes, so that one odd verdict does not decide."""

    grader: Grader
    themes: tuple[Theme, ...]
    requests: int
    combine: Literal["median", "mean"]

    async def grades(self, query: str, answers: Sequence[str]) -> list[Grade]:
        """Return a grade per answer; raises `LLMFailed` and `LLMBudgetSpent` when any request has no answer."""
        parts = shared_out(self.themes, self.requests)
        found = await asyncio.gather(*(self.grader.grade(part, query, answers) for part in parts))
        scores = {theme.name: graded.scores[n] for part, graded in zip(parts, found, strict=True) for n, theme in enumerate(part)}
        reasons = {
            theme.name: graded.reasons[n] for part, graded in zip(parts, found, strict=True) for n, theme in enumerate(part)
        }
        put_together = median if self.combine == "median" else fmean
        return [
            Grade(
                score=float(put_together([scores[theme.name][place] for theme in self.themes])),
                by_theme={theme.name: scores[theme.name][place] for theme in self.themes},
                reasons={theme.name: reasons[theme.name][place] for theme in self.themes},
            )
            for place in range(len(answers))
        ]


def shared_out(themes: Sequence[Theme], requests: int) -> list[list[Theme]]:
    """Return the themes in so many parts of about the same size, as cards are dealt."""
    count = min(requests, len(themes))
    return [list(themes[start::count]) for start in range(count)]
