"""Asking the LLM to grade answers by some rubrics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from statistics import fmean
from typing import Literal, Protocol

from attrs import frozen

from astuner.contract.schema import Message
from astuner.shared.clients import Language, LLMClient, ask_for_json, fence, fill_prompt
from astuner_judges.asking import fence_rule
from astuner_judges.rubrics.options import RubricsOptions
from astuner_judges.rubrics.rubric import Theme, to_one_line
from astuner_judges.rubrics.shapes import ranks_shape, scores_shape

PACKAGE = "astuner_judges.rubrics"


@frozen(kw_only=True)
class GradedAnswers:
    """The scores of some answers."""

    scores: tuple[tuple[float, ...], ...]
    """By theme, then by answer."""
    reasons: tuple[tuple[str, ...], ...]
    """Likewise."""
    position_bias: tuple[tuple[float, ...], ...] | None = None
    """Likewise: the share of the other answers that changed sides in another order; None with only one order."""


class Grader(Protocol):
    """Scores answers to a question by each of some themes."""

    async def grade(self, themes: Sequence[Theme], query: str, answers: Sequence[str]) -> GradedAnswers:
        """Ask; raises `LLMFailed` and `LLMBudgetSpent`."""
        ...


@frozen(kw_only=True)
class Scale:
    """The scores that an answer may get."""

    low: float
    high: float


def make_grader(options: RubricsOptions, client: LLMClient, max_tokens: int) -> Grader:
    """Return the grader of the mode that the options choose."""
    scale = Scale(low=options.min_score, high=options.max_score)
    kind = _PointwiseGrader if options.grader_mode == "pointwise" else _ListwiseGrader
    return kind(client, options.language, scale, max_tokens)


def agreement(
    mode: Literal["pointwise", "listwise"], threshold: float, labels: Sequence[float], scores: Sequence[float]
) -> float:
    """Return how far scores agree with labels, 0 to 1.

    Pointwise, a score agrees when it lies on the label's side of the threshold. Listwise, it is the share of pairs of answers
    with different labels that the scores order the same way; a pair with equal scores counts half.
    """
    if mode == "pointwise":
        same = [(label >= threshold) == (score >= threshold) for label, score in zip(labels, scores, strict=True)]
        return sum(same) / len(same)
    pairs = [(one, other) for one in range(len(labels)) for other in range(len(labels)) if labels[one] > labels[other]]
    right = [1.0 if scores[one] > scores[other] else 0.5 if scores[one] == scores[other] else 0.0 for one, other in pairs]
    return sum(right) / len(right)


def system_message(language: Language) -> Message:
    """Return the system message of all requests made here."""
    return {"role": "system", "content": f"{fill_prompt(PACKAGE, 'system', language)}\n\n{fence_rule(language)}"}


def number_texts(texts: Sequence[str]) -> str:
    """Return texts as a list numbered from 1."""
    return "\n".join(f"{number}. {text}" for number, text in enumerate(texts, start=1))


class _PointwiseGrader:
    """Grades each answer on its own."""

    def __init__(self, client: LLMClient, language: Language, scale: Scale, max_tokens: int) -> None:
        self._client, self._language, self._scale, self._max_tokens = client, language, scale, max_tokens

    async def grade(self, themes: Sequence[Theme], query: str, answers: Sequence[str]) -> GradedAnswers:
        found = await asyncio.gather(*(self._grade_one(themes, query, answer) for answer in answers))
        places = range(len(themes))
        return GradedAnswers(
            scores=tuple(tuple(scores[place] for scores, _ in found) for place in places),
            reasons=tuple(tuple(reasons[place] for _, reasons in found) for place in places),
        )

    async def _grade_one(self, themes: Sequence[Theme], query: str, answer: str) -> tuple[list[float], list[str]]:
        low, high = self._scale.low, self._scale.high
        asked = fill_prompt(
            PACKAGE,
            "grade_pointwise",
            self._language,
            rubrics=number_texts([theme.text for theme in themes]),
            question=fence(query, "question"),
            answer=fence(answer, "answer"),
            low=f"{low:g}",
            high=f"{high:g}",
        )
        messages = [system_message(self._language), {"role": "user", "content": asked}]
        given, _ = await ask_for_json(self._client, messages, scores_shape(len(themes), low, high), max_tokens=self._max_tokens)
        verdicts = sorted(given.verdicts, key=lambda verdict: verdict.rubric)
        return [verdict.score for verdict in verdicts], [to_one_line(verdict.reason) for verdict in verdicts]


class _ListwiseGrader:
    """Ranks the answers against each other, in an order and its reverse."""

    def __init__(self, client: LLMClient, language: Language, scale: Scale, max_tokens: int) -> None:
        self._client, self._language, self._scale, self._max_tokens = client, language, scale, max_tokens

    async def grade(self, themes: Sequence[Theme], query: str, answers: Sequence[str]) -> GradedAnswers:
        forwards = list(range(len(answers)))
        orders = forwards, forwards[::-1]
        found = await asyncio.gather(*(self._ask_ranks(themes, query, answers, order) for order in orders))
        scores, reasons, biases = [], [], []
        for place in range(len(themes)):
            both = [ranks[place] for ranks, _ in found]
            means = [fmean(of_answer) for of_answer in zip(*map(_share_beaten, both), strict=True)]
            scores.append(tuple(self._scale.low + share * (self._scale.high - self._scale.low) for share in means))
            reasons.append((found[0][1][place],) * len(answers))
            biases.append(tuple(_share_reversed(answer, *both) for answer in range(len(answers))))
        return GradedAnswers(scores=tuple(scores), reasons=tuple(reasons), position_bias=tuple(biases))

    async def _ask_ranks(
        self, themes: Sequence[Theme], query: str, answers: Sequence[str], order: Sequence[int]
    ) -> tuple[list[list[float]], list[str]]:
        """Return for each theme the rank of each answer, in the order of the answers, not as they were shown."""
        shown = "\n\n".join(f"[{number}]\n{fence(answers[place], 'answer')}" for number, place in enumerate(order, start=1))
        asked = fill_prompt(
            PACKAGE,
            "grade_listwise",
            self._language,
            rubrics=number_texts([theme.text for theme in themes]),
            question=fence(query, "question"),
            answers=shown,
            count=str(len(answers)),
        )
        messages = [system_message(self._language), {"role": "user", "content": asked}]
        given, _ = await ask_for_json(self._client, messages, ranks_shape(len(themes), len(answers)), max_tokens=self._max_tokens)
        verdicts = sorted(given.verdicts, key=lambda verdict: verdict.rubric)
        ranks = []
        for verdict in verdicts:
            by_place = dict(zip(order, verdict.ranks, strict=True))
            ranks.append([by_place[place] for place in range(len(answers))])
        return ranks, [to_one_line(verdict.reason) for verdict in verdicts]


def _share_beaten(ranks: Sequence[float]) -> list[float]:
    """Return the share of the other answers that each answer beats; an equal one counts half."""
    behind = [sum(1.0 if other > rank else 0.5 if other == rank else 0.0 for other in ranks) - 0.5 for rank in ranks]
    return [count / (len(ranks) - 1) for count in behind]


def _share_reversed(answer: int, forwards: Sequence[float], backwards: Sequence[float]) -> float:
    """Return the share of the other answers that are on different sides of an answer in the two orders."""
    sides = [
        [(rank > ranks[answer]) - (rank < ranks[answer]) for place, rank in enumerate(ranks) if place != answer]
        for ranks in (forwards, backwards)
    ]
    return fmean(one != other for one, other in zip(*sides, strict=True))
