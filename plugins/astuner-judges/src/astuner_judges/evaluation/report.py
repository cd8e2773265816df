"""What a judge's findings on labelled answers amount to."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import asdict, frozen

from astuner.clients.llm_budget import Spent
from astuner.schema import Unjudged, Verdict
from astuner_judges.evaluation.agreement import (
    accuracy,
    average_ranks,
    cohens_kappa,
    kendall_tau_b,
    ordered_pairs,
    pearson,
    shares_of_rank,
    spearman,
)
from astuner_judges.evaluation.asking_judges import Finding, Findings
from astuner_judges.evaluation.bootstrap import Interval, interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Rows = NDArray[np.intp]

KENDALL_RESAMPLED = 300
"""Most answers for which Kendall's tau gets an interval: it looks at all pairs."""


@frozen(kw_only=True)
class Overlap:
    """Labelled examples that the judge has learnt from: on these it is not tested."""

    answers: int
    """With question and answer."""
    questions: int
    """With the question alone, of another answer."""


@frozen(kw_only=True)
class Report:
    """How one judge did. A figure that cannot be had is None."""

    judge: str
    questions: int
    answers: int
    judged: int
    failures: dict[str, int]
    """Answers without a verdict, by reason."""
    first_failure: str | None
    threshold: float
    accuracy: Interval | None
    kappa: Interval | None
    spearman: Interval | None
    kendall: Interval | None
    order: Interval | None
    """Share of pairs of answers to one question, with different labels, that the judge orders the same way."""
    position_changes: float | None
    """Share of pairs of answers that the judge orders another way when they are put to it in the reverse order."""
    position_pairs: int
    length_bias: Interval | None
    """Correlation of what the judge gives an answer too much, compared with the labels, with the rank of the answer's length."""
    overlap: Overlap | None
    spent: Spent | None

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


@frozen(kw_only=True)
class _Judged:
    """Answers with a verdict, as columns."""

    labels: NDArray[np.float64]
    scores: NDArray[np.float64]
    good: NDArray[np.bool_]
    success: NDArray[np.bool_]
    lengths: NDArray[np.float64]
    question: Rows
    scored: NDArray[np.bool_]


def report_on(
    name: str,
    findings: Sequence[Findings],
    *,
    threshold: float | None,
    success_reward: float | None = None,
    seed: int,
    learnt_from: Collection[str] = (),
    spent: Spent | None = None,
) -> Report:
    """Return the figures; `threshold` is the label from which an answer is good, halfway between the extremes when None.

    `success_reward` is the reward from which a verdict that does not say so counts as a success; the threshold when None.
    """
    every = [finding for found in findings for finding in found.forwards]
    failed = [finding for finding in every if isinstance(finding, Unjudged)]
    limit = middle_of(findings) if threshold is None else threshold
    rows = _columns(findings, limit, limit if success_reward is None else success_reward)
    changed, pairs = _position(findings)
    return Report(
        judge=name,
        questions=len(findings),
        answers=len(every),
        judged=len(every) - len(failed),
        failures=dict(Counter(finding.reason for finding in failed).most_common()),
        first_failure=next((finding.detail for finding in failed if finding.detail), None),
        threshold=limit,
        overlap=_overlap(findings, learnt_from) if learnt_from else None,
        spent=spent,
        position_changes=changed / pairs if pairs else None,
        position_pairs=pairs,
        **_figures(rows, seed),
    )


def middle_of(findings: Sequence[Findings]) -> float:
    """Return what lies halfway between the lowest and the highest label; 0.5 where they are the same."""
    labels = [answer.label for found in findings if found.example.scored for answer in found.example.answers]
    low, high = (min(labels), max(labels)) if labels else (0.0, 1.0)
    return (low + high) / 2 if low < high else 0.5


def _columns(findings: Sequence[Findings], threshold: float, from_reward: float) -> _Judged:
    rows = [
        (answer, finding, number, found.example.scored)
        for number, found in enumerate(findings)
        for answer, finding in zip(found.example.answers, found.forwards, strict=True)
        if isinstance(finding, Verdict)
    ]
    success = [finding.reward >= from_reward if finding.is_success is None else finding.is_success for _, finding, _, _ in rows]
    return _Judged(
        labels=np.array([answer.label for answer, _, _, _ in rows], float),
        scores=np.array([finding.reward for _, finding, _, _ in rows], float),
        good=np.array([answer.label >= threshold for answer, _, _, _ in rows], bool),
        success=np.array(success, bool),
        lengths=np.array([len(answer.text) for answer, _, _, _ in rows], float),
        question=np.unique([number for _, _, number, _ in rows], return_inverse=True)[1] if rows else np.array([], np.intp),
        scored=np.array([scored for _, _, _, scored in rows], bool),
    )


def _figures(rows: _Judged, seed: int) -> dict[str, Any]:
    if not len(rows.labels):
        return dict.fromkeys(("accuracy", "kappa", "spearman", "kendall", "order", "length_bias"))

    def of(statistic: Any, *, only_scored: bool = True, resamples: int | None = None) -> Interval | None:
        # Ranks say nothing across questions, nor which answers are good.
        if only_scored and not rows.scored.all():
            return None
        more = {} if resamples is None else {"resamples": resamples}
        found = interval(statistic, rows.question, seed=seed, **more)
        return None if math.isnan(found.value) else found

    errors, lengths = _errors(rows), average_ranks(rows.lengths)
    few = len(rows.labels) <= KENDALL_RESAMPLED
    return {
        "accuracy": of(lambda at: accuracy(rows.good[at], rows.success[at])),
        "kappa": of(lambda at: cohens_kappa(rows.good[at], rows.success[at])),
        "spearman": of(lambda at: spearman(rows.labels[at], rows.scores[at])),
        "kendall": of(lambda at: kendall_tau_b(rows.labels[at], rows.scores[at]), resamples=None if few else 0),
        "order": of(_order(rows), only_scored=False),
        "length_bias": of(lambda at: pearson(errors[at], lengths[at]), only_scored=False),
    }


def _order(rows: _Judged) -> Any:
    """Return the share of pairs ordered as labelled, over the questions of some rows."""
    found = [
        ordered_pairs(rows.labels[rows.question == number], rows.scores[rows.question == number])
        for number in range(int(rows.question.max()) + 1)
    ]
    right, pairs = (np.array(column, float) for column in zip(*found, strict=True))
    sizes = np.bincount(rows.question)

    def share(at: Rows) -> float:
        # Whole questions are drawn, so the rows of one tell how often it was.
        times = np.bincount(rows.question[at], minlength=len(sizes)) / sizes
        return float(times @ right / (times @ pairs)) if times @ pairs else math.nan

    return share


def _errors(rows: _Judged) -> NDArray[np.float64]:
    """Return how much more a judge gives each answer than its label, from -1 to 1.

    Scores and labels are put on a scale from 0 to 1 by their extremes; where labels only rank, by the ranks within each question.
    """
    if rows.scored.all():
        errors: NDArray[np.float64] = _from_0_to_1(rows.scores) - _from_0_to_1(rows.labels)
        return errors
    errors = np.zeros(len(rows.labels))
    for number in range(int(rows.question.max()) + 1):
        at = rows.question == number
        errors[at] = shares_of_rank(rows.scores[at]) - shares_of_rank(rows.labels[at])
    return errors


def _from_0_to_1(values: NDArray[np.float64]) -> NDArray[np.float64]:
    width = float(np.ptp(values))
    scaled: NDArray[np.float64] = (values - values.min()) / width if width > 0 else np.full(len(values), 0.5)
    return scaled


def _position(findings: Sequence[Findings]) -> tuple[int, int]:
    changed = pairs = 0
    for found in findings:
        both = [*zip(found.forwards, found.backwards or (), strict=False)]
        for place, one in enumerate(both):
            for other in both[:place]:
                orders = [_sign(one[turn], other[turn]) for turn in (0, 1)]
                if None not in orders:
                    pairs += 1
                    changed += orders[0] != orders[1]
    return changed, pairs


def _sign(one: Finding, other: Finding) -> int | None:
    if not isinstance(one, Verdict) or not isinstance(other, Verdict):
        return None
    return (one.reward > other.reward) - (one.reward < other.reward)


def _overlap(findings: Sequence[Findings], learnt_from: Collection[str]) -> Overlap:
    known, questions = set(learnt_from), {one.partition("-")[0] for one in learnt_from}
    digests = [one for found in findings for one in found.example.digests]
    same = sum(one in known for one in digests)
    return Overlap(answers=same, questions=sum(one.partition("-")[0] in questions for one in digests) - same)
