"""An evaluation as text for a terminal, and as Markdown to publish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from astuner.cli.output import align_columns
from astuner.episodes.transcript.terminal_text import format_seconds
from astuner_tools.evaluations.evaluation import Difference, Evaluation, Standing
from astuner_tools.evaluations.statistics import Figure
from astuner_tools.markdown_text import format_table

Table = Sequence[Sequence[str]]
MOST_SHOWN = 100_000
"""More missing tasks than this are not a number to plan with."""


def format_text(evaluation: Evaluation) -> str:
    """Return tables for a terminal."""
    return "\n\n".join(f"{title}\n{align_columns(table)}" for title, table in _make_tables(evaluation))


def format_markdown(evaluation: Evaluation) -> str:
    """Return a page with the tables, how they were made, and what the columns mean."""
    parts = ["# Evaluation", _describe_settings(evaluation)]
    for title, table in _make_tables(evaluation):
        head, *rows = table
        cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        parts.append(f"## {title[:1].upper()}{title[1:]}\n\n" + format_table(head, cells))
    return "\n\n".join([*parts, _explain(evaluation)]) + "\n"


def _make_tables(evaluation: Evaluation) -> Iterator[tuple[str, Table]]:
    everything = [one for one in evaluation.standings if one.source is None]
    yield _title(evaluation, "all tasks"), [_HEAD, *map(_rate, everything)]
    if overall := [one for one in evaluation.differences if one.source is None]:
        yield f"difference to {overall[0].against}, paired by task", [_DIFFERENCE_HEAD, *map(_compare, overall)]
    for source in dict.fromkeys(one.source for one in evaluation.standings if one.source is not None):
        standings = [one for one in evaluation.standings if one.source == source]
        yield _title(evaluation, f"source {source}", source), [_HEAD, *map(_rate, standings)]
        if differences := [one for one in evaluation.differences if one.source == source]:
            title = f"source {source}: difference to {differences[0].against}, paired by task"
            yield title, [_DIFFERENCE_HEAD, *map(_compare, differences)]
    rows = [
        (
            one.name,
            f"{one.cost.calls:,}",
            _format_count(one.cost.prompt_tokens),
            _format_count(one.cost.generated_tokens),
            format_seconds(one.cost.seconds),
            f"{one.failed:,}",
        )
        for one in evaluation.contestants
    ]
    yield "cost", [("contestant", "calls", "prompt tokens", "sampled tokens", "time", "failed episodes"), *rows]


_HEAD = ("contestant", "tasks", "reward", "95 %", "success", "95 %")
_DIFFERENCE_HEAD = ("contestant", "tasks", "reward", "95 %", "success", "95 %", "better", "worse", "p", "decided")


def _title(evaluation: Evaluation, what: str, source: str | None = None) -> str:
    tasks = {one.tasks for one in evaluation.standings if one.source == source}
    number, each = max(tasks), evaluation.settings["episodes_per_task"]
    return f"{what} ({number:,}, {each} episode{'s' * (each != 1)} each)"


def _rate(one: Standing) -> Sequence[str]:
    return (one.contestant, f"{one.tasks:,}", *_format_figure(one.reward, ".3f"), *_format_figure(one.success, ".1%"))


def _compare(one: Difference) -> Sequence[str]:
    return (
        one.contestant,
        f"{one.tasks:,}",
        *_format_figure(one.reward, "+.3f"),
        *_format_points(one.success),
        f"{one.better:,}",
        f"{one.worse:,}",
        f"{one.p_value:.2g}",
        _describe_decision(one),
    )


def _describe_decision(one: Difference) -> str:
    if one.decided:
        return "yes"
    if one.more_tasks is None:
        return "no: they are equal here" if one.tasks > 1 else "no: one task decides nothing"
    return f"no: about {one.more_tasks:,} more tasks would" if one.more_tasks <= MOST_SHOWN else "no: too close to decide"


def _format_figure(figure: Figure | None, form: str) -> tuple[str, str]:
    if figure is None:
        return "-", "-"
    limits = "-" if figure.low is None or figure.high is None else f"{figure.low:{form}} to {figure.high:{form}}"
    return f"{figure.value:{form}}", limits


def _format_points(figure: Figure | None) -> tuple[str, str]:
    """Return a difference of shares in percentage points."""
    if figure is None:
        return "-", "-"
    scaled = Figure(*(None if value is None else 100 * value for value in (figure.value, figure.low, figure.high)))  # type: ignore[arg-type]  # the value is a number
    value, limits = _format_figure(scaled, "+.1f")
    return f"{value} points", limits


def _format_count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"


def _describe_settings(evaluation: Evaluation) -> str:
    settings = ", ".join(
        f"{name.replace('_', ' ')} {value}" for name, value in evaluation.settings.items() if value not in (None, "")
    )
    lines = [f"* {one.name}: {one.source}" for one in evaluation.contestants]
    return "\n".join([f"Played with {settings}.", "", *lines])


def _explain(evaluation: Evaluation) -> str:
    several = (
        " Differences are those of the same tasks, with the interval of the paired bootstrap over tasks. `better` and `worse` "
        "count tasks; p is that of the exact sign test (McNemar's, with one episode by task). `decided`: the interval excludes "
        "0; otherwise the number of tasks with which a difference of this size would be found in four of five evaluations."
        if evaluation.differences
        else ""
    )
    return (
        "Intervals hold 95 %: of rewards the bootstrap's over tasks, of success Wilson's, with the episodes of a task counted as "
        f"dependent.{several}"
    )
