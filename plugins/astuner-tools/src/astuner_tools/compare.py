"""`astuner compare`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from astuner.cli.output import align_columns, as_json, print_json
from astuner.contract.errors import UsageError

if TYPE_CHECKING:
    from astuner_tools.comparison import Comparison, TaskChange

MOST_TASKS = 10
"""Tasks that are listed at each end."""

EXAMPLE = """\b
Examples:
  astuner compare my-experiment second-experiment
  astuner compare runs/a runs/b runs/c --metric reward/mean --metric kl/mean"""


@click.command(epilog=EXAMPLE, short_help="Compare runs: configuration, curves and tasks.")
@click.argument("names", nargs=-1, metavar="RUN RUN...")
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Show this metric instead of the rewards; repeatable.")
@click.option(
    "--split", type=click.Choice(["train", "validation"]), help="Whose tasks are compared: `validation`, if all have it."
)
@as_json
def compare(names: tuple[str, ...], metrics: tuple[str, ...], split: str | None, in_json: bool) -> None:
    """Compare runs: their configurations, how their metrics moved, and the tasks that one solves and another does not.

    RUN is a run directory, or the name of one in launcher_record. Tasks are compared by the last time that each run played them.
    """
    from typing import cast

    from astuner.runs.inspection.run_search import open_run
    from astuner_tools.comparison import CURVES, compare_runs

    if len(names) < 2:
        raise UsageError("astuner compare: name two runs or more; `astuner runs` lists them")
    problems: list[str] = []
    runs = [open_run(name, problems.append) for name in names]
    found = compare_runs(runs, metrics=metrics or CURVES, split=cast("Any", split))
    if in_json:
        print_json({**found.to_json(), "problems": problems})
        return
    for part in _format_parts(found, names):
        click.echo(part)
    for problem in problems:
        click.echo(f"warning: {problem}", err=True)


def _format_parts(found: Comparison, names: Sequence[str]) -> Iterator[str]:
    from astuner_tools.config_explain.command import format_value
    from astuner_tools.runs import format_runs

    yield format_runs(found.runs, names)
    yield f"\n{_count(len(found.configuration), 'difference')} of configuration"
    if found.configuration:
        rows = ((one.key, *map(format_value, one.values)) for one in found.configuration)
        yield align_columns([("KEY", *names), *rows])
    lines = [
        (name, *(f"{curve[0][1]:.3g} -> {curve[-1][1]:.3g}" if curve else "-" for curve in curves))
        for name, curves in found.curves.items()
    ]
    yield f"\n{align_columns([('METRIC', *names), *lines])}"
    yield f"\n{_format_task_counts(found, names)}"
    if found.tasks:
        rows = ((one.task, *(f"{score:.3g}" for score in one.scores), f"{one.change:+.3g}") for one in _shorten(found.tasks))
        yield align_columns([("TASK", *names, "CHANGE"), *rows])


def _format_task_counts(found: Comparison, names: Sequence[str]) -> str:
    better, worse = found.count("better"), found.count("worse")
    alone = len(found.tasks) - better - worse
    # Of three runs, one between them may differ.
    rest = f", {alone} otherwise different" if alone else ""
    rest += f"; {found.apart_tasks} that not all played left out" if found.apart_tasks else ""
    listed = f"; the {2 * MOST_TASKS} largest changes, all with --json:" if len(found.tasks) > 2 * MOST_TASKS else ""
    return (
        f"{found.measure} of each {found.split} task: {names[-1]} is better in {better} and worse in {worse} than {names[0]}, "
        f"equal in {found.same_tasks}{rest}{listed}"
    )


def _shorten(changes: Sequence[TaskChange]) -> list[TaskChange]:
    return [*changes] if len(changes) <= 2 * MOST_TASKS else [*changes[:MOST_TASKS], *changes[-MOST_TASKS:]]


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
