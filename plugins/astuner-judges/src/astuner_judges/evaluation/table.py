"""A report as a table for people."""

from __future__ import annotations

import math

from astuner.cli.output import align_columns
from astuner.contract.schema import Unjudged
from astuner_judges.evaluation.bootstrap import Interval
from astuner_judges.evaluation.report import Report


def format_table(report: Report) -> str:
    """Return the figures of a judge, one a line, each with what it means."""
    rows = [
        ("judge", report.judge, ""),
        ("answers", f"{report.judged} of {report.answers} judged", f"to {report.questions} questions"),
        *(("", f"{count} {reason}", "no verdict") for reason, count in report.failures.items()),
        ("accuracy", _format_interval(report.accuracy, share=True), _describe_decisions(report)),
        ("kappa", _format_interval(report.kappa), "Cohen's: 0 is chance, 1 full agreement"),
        ("spearman", _format_interval(report.spearman), "rank correlation of score and label"),
        ("kendall", _format_interval(report.kendall), "tau-b of score and label"),
        ("order", _format_interval(report.order, share=True), "pairs of answers to one question in the order of their labels"),
        _position(report),
        ("length", _format_interval(report.length_bias), "rank correlation of score and length of answers, given the label"),
        *_cost(report),
    ]
    return align_columns(rows)


def _describe_decisions(report: Report) -> str:
    failed = sum(count for reason, count in report.failures.items() if Unjudged(reason=reason).by_answer)
    return f"same decision, good from {report.threshold:g}" + (f"; {failed} failures count as wrong" if failed else "")


def list_warnings(report: Report) -> list[str]:
    """Return what a user must know before trusting the figures."""
    found = [f"judge '{report.judge}': {note}" for note in report.notes]
    overlap = report.overlap
    if overlap is not None and (overlap.answers or overlap.questions):
        found.append(
            f"judge '{report.judge}' has learnt from {overlap.answers} of these {report.answers} answers, and from other "
            f"answers to the questions of {overlap.questions} more: the figures say more than it can; label others"
        )
    if report.failures:
        found.append(
            f"judge '{report.judge}' gave no verdict on {report.answers - report.judged} of {report.answers} answers; the first: "
            f"{report.first_failure or next(iter(report.failures))}"
        )
    return found


def _cost(report: Report) -> list[tuple[str, str, str]]:
    spent = report.spent
    if spent is None:
        return []
    tokens = f"{spent.prompt_tokens} + {spent.completion_tokens}"
    return [
        ("requests", str(spent.requests), f"and {spent.cached} answered by the cache"),
        ("tokens", tokens, "of prompts and answers"),
        ("cost", f"{spent.cost:.4g}", "by the prices of the options"),
    ]


def _position(report: Report) -> tuple[str, str, str]:
    if report.position_bias is not None:
        return "position", f"{report.position_bias:.1%}", "position_bias of the judge: comparisons that turn with the order"
    changed = "-" if report.position_changes is None else f"{report.position_changes:.1%} of {report.position_pairs}"
    return "position", changed, "pairs whose order changes when the answers are put in the reverse order"


def _format_interval(found: Interval | None, *, share: bool = False) -> str:
    if found is None:
        return "-"
    form = "{:.1%}" if share else "{:.3f}"
    sure = "" if math.isnan(found.low) else f"  [{form.format(found.low)}, {form.format(found.high)}]"
    return f"{form.format(found.value)}{sure}"
