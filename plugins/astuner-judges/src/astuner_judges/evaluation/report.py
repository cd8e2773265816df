"""The figures of a judge on labelled answers."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import asdict, frozen

from astuner.contract.schema import Unjudged, Verdict
from astuner.shared.clients import Usage
from astuner_judges.evaluation.agreement import (
    accuracy,
    cohens_kappa,
    count_ordered_pairs,
    kendall_tau_b,
    partial_pearson,
    partial_spearman,
    shares_of_rank,
    spearman,
)
from astuner_judges.evaluation.bootstrap import Interval, interval
from astuner_judges.evaluation.judging import JudgedExample, Judgement
from astuner_judges.evaluation.labelled import digest_of_question
from astuner_judges.evaluation.limits import Limits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]

KENDALL_RESAMPLED = 300
"""Most answers for which Kendall's tau gets an interval: it looks at all pairs."""


@frozen(kw_only=True)
class Overlap:
    """Labelled examples that the judge has learnt from, which do not test it."""

    answers: int
    """With question and answer."""
    questions: int
    """With only the question; the answer is another."""


@frozen(kw_only=True)
class Report:
    """The figures of one judge; None for those that cannot be computed."""

    judge: str
    questions: int
    answers: int
    judged: int
    failures: dict[str, int]
    """Answers without a verdict, by reason."""
    first_failure: str | None
    threshold: float
    """The lowest label of a good answer."""
    success_reward: float | None
    """The lowest reward of a success, for verdicts that do not say; None if all say, or if it is unknown."""
    accuracy: Interval | None
    kappa: Interval | None
    spearman: Interval | None
    kendall: Interval | None
    order: Interval | None
    """Share of pairs of answers to one question, with different labels, that the judge orders the same way."""
    position_changes: float | None
    """Share of pairs of answers that the judge orders differently when it sees them in the reverse order."""
    position_pairs: int
    position_bias: float | None
    """The mean of the component `position_bias`, for a judge that gives one: it is not asked twice."""
    length_bias: Interval | None
    """Partial rank correlation of score and length of the answer, given the label; of ranks, within each question."""
    overlap: Overlap | None
    spent: Usage | None
    notes: tuple[str, ...]
    """What a user must know about the figures."""

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


@frozen(kw_only=True)
class _JudgedAnswers:
    """Answers with a verdict, as columns; for decisions also those on which the judge's own code failed, which are no success."""

    labels: NDArray[np.float64]
    scores: NDArray[np.float64]
    good: NDArray[np.bool_]
    success: NDArray[np.bool_]
    lengths: NDArray[np.float64]
    question: Rows
    scored: NDArray[np.bool_]


def report_on(
    name: str,
    examples: Sequence[JudgedExample],
    *,
    limits: Limits,
    seed: int,
    learnt_from: Collection[str] = (),
    spent: Usage | None = None,
) -> Report:
    """Return the figures; without accuracy and kappa if it is unknown which verdicts are successes."""
    every = [judgement for judged in examples for judgement in judged.forwards]
    failed = [judgement for judgement in every if isinstance(judgement, Unjudged)]
    rows = _columns(examples, limits)
    changed, pairs = _position(examples)
    biases = [bias for judged in examples for bias in judged.position_biases]
    return Report(
        judge=name,
        questions=len(examples),
        answers=len(every),
        judged=len(every) - len(failed),
        failures=dict(Counter(judgement.reason for judgement in failed).most_common()),
        first_failure=next((judgement.detail for judgement in failed if judgement.detail), None),
        threshold=limits.label,
        success_reward=limits.reward,
        overlap=_overlap(examples, learnt_from) if learnt_from else None,
        spent=spent,
        position_changes=changed / pairs if pairs else None,
        position_pairs=pairs,
        position_bias=fmean(biases) if biases else None,
        notes=limits.notes,
        **_figures(rows, _columns(examples, limits, with_failures=True), seed, decides=limits.decides),
    )


def _columns(examples: Sequence[JudgedExample], limits: Limits, *, with_failures: bool = False) -> _JudgedAnswers:
    rows = [
        (answer, judgement, number, judged.example.scored)
        for number, judged in enumerate(examples)
        for answer, judgement in zip(judged.example.answers, judged.forwards, strict=True)
        if isinstance(judgement, Verdict) or (with_failures and judgement.by_answer)
    ]
    from_reward = math.inf if limits.reward is None else limits.reward
    scores = [math.nan if judgement.reward is None else judgement.reward for _, judgement, _, _ in rows]
    success = [
        score >= from_reward if judgement.is_success is None else judgement.is_success
        for score, (_, judgement, _, _) in zip(scores, rows, strict=True)
    ]
    return _JudgedAnswers(
        labels=np.array([answer.label for answer, _, _, _ in rows], float),
        scores=np.array(scores, float),
        good=np.array([answer.label >= limits.label for answer, _, _, _ in rows], bool),
        success=np.array(success, bool),
        lengths=np.array([len(answer.text) for answer, _, _, _ in rows], float),
        question=np.unique([number for _, _, number, _ in rows], return_inverse=True)[1] if rows else np.array([], np.intp),
        scored=np.array([scored for _, _, _, scored in rows], bool),
    )


def _figures(rows: _JudgedAnswers, decided: _JudgedAnswers, seed: int, *, decides: bool) -> dict[str, Any]:
    found = dict.fromkeys(("accuracy", "kappa", "spearman", "kendall", "order", "length_bias"))

    def of(
        statistic: Any, *, only_scored: bool = True, resamples: int | None = None, over: _JudgedAnswers = rows
    ) -> Interval | None:
        # Ranks compare neither across questions nor with a limit.
        if only_scored and not over.scored.all():
            return None
        more = {} if resamples is None else {"resamples": resamples}
        given = interval(statistic, over.question, seed=seed, **more)
        return None if math.isnan(given.value) else given

    if decides and len(decided.labels):
        found["accuracy"] = of(lambda at: accuracy(decided.good[at], decided.success[at]), over=decided)
        found["kappa"] = of(lambda at: cohens_kappa(decided.good[at], decided.success[at]), over=decided)
    if not len(rows.labels):
        return found
    few = len(rows.labels) <= KENDALL_RESAMPLED
    return found | {
        "spearman": of(lambda at: spearman(rows.labels[at], rows.scores[at])),
        "kendall": of(lambda at: kendall_tau_b(rows.labels[at], rows.scores[at]), resamples=None if few else 0),
        "order": of(_order(rows), only_scored=False),
        "length_bias": of(_length_bias(rows), only_scored=False),
    }


def _order(rows: _JudgedAnswers) -> Any:
    """Return the share of pairs ordered as labelled, over the questions of some rows."""
    found = [
        count_ordered_pairs(rows.labels[rows.question == number], rows.scores[rows.question == number])
        for number in range(int(rows.question.max()) + 1)
    ]
    right, pairs = (np.array(column, float) for column in zip(*found, strict=True))
    sizes = np.bincount(rows.question)

    def share(at: Rows) -> float:
        # Whole questions are drawn, so the rows of a question show how often it was.
        times = np.bincount(rows.question[at], minlength=len(sizes)) / sizes
        return float(times @ right / (times @ pairs)) if times @ pairs else math.nan

    return share


def _length_bias(rows: _JudgedAnswers) -> Any:
    """Return a function that correlates score and length of some rows, with the label held fixed: good answers may be longer.

    If labels are ranks, all three are ranks within their question.
    """
    scores, lengths, labels = rows.scores, rows.lengths, rows.labels
    if rows.scored.all():
        return lambda at: partial_spearman(scores[at], lengths[at], labels[at])
    ranked = [np.zeros(len(rows.labels)) for _ in range(3)]
    for number in range(int(rows.question.max()) + 1):
        at = rows.question == number
        for shares, values in zip(ranked, (scores, lengths, labels), strict=True):
            shares[at] = shares_of_rank(values[at])
    return lambda at: partial_pearson(*(shares[at] for shares in ranked))


def _position(examples: Sequence[JudgedExample]) -> tuple[int, int]:
    changed = pairs = 0
    for judged in examples:
        both = [*zip(judged.forwards, judged.backwards or (), strict=False)]
        for place, one in enumerate(both):
            for other in both[:place]:
                orders = [_sign(one[turn], other[turn]) for turn in (0, 1)]
                if None not in orders:
                    pairs += 1
                    changed += orders[0] != orders[1]
    return changed, pairs


def _sign(one: Judgement, other: Judgement) -> int | None:
    if not isinstance(one, Verdict) or not isinstance(other, Verdict):
        return None
    return (one.reward > other.reward) - (one.reward < other.reward)


def _overlap(examples: Sequence[JudgedExample], learnt_from: Collection[str]) -> Overlap:
    known, questions = set(learnt_from), set(map(digest_of_question, learnt_from))
    digests = [one for judged in examples for one in judged.example.digests]
    same = sum(one in known for one in digests)
    return Overlap(answers=same, questions=sum(digest_of_question(one) in questions for one in digests) - same)
