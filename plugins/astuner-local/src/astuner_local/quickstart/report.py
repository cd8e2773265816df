"""What the quickstart shows at its end: before and after, two episodes that changed, and what to try next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from io import StringIO
from pathlib import Path

from astuner.rollout.transcript import transcript
from astuner.runs.launch import RunOutcome
from astuner.schema import Episode, Group

EPISODES = 2

ROWS = (("mean reward", "val/reward/mean"), ("solved", "val/success/rate"), ("failed episodes", "val/failed"))


def report(outcome: RunOutcome, directory: Path) -> str:
    """Return the report as text."""
    return "\n".join(_lines(outcome, directory))


def _lines(outcome: RunOutcome, directory: Path) -> Iterator[str]:
    before, after = outcome.before or {}, outcome.after or {}
    yield ""
    yield _table(before, after, tasks=len(outcome.after_groups))
    for was, became in improved(outcome.before_groups, outcome.after_groups)[:EPISODES]:
        yield f"before: {transcript(was)}"
        yield f"after:  {transcript(became)}"
        yield ""
    yield f"The run, its episodes and its checkpoints are in {outcome.directory}"
    yield resources.files(__package__).joinpath("next_steps.txt").read_text(encoding="utf-8").format(directory=directory).rstrip()


def improved(before: Sequence[Group], after: Sequence[Group]) -> list[tuple[Episode, Episode]]:
    """Return the episodes of the same task of which the first had no success and the second has."""
    earlier = {episode.task.task_id: episode for group in before for episode in group.episodes if not episode.is_success}
    return [
        (earlier[episode.task.task_id], episode)
        for group in after
        for episode in group.episodes
        if episode.is_success and episode.task.task_id in earlier
    ]


def _table(before: Mapping[str, float], after: Mapping[str, float], tasks: int) -> str:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{tasks} validation tasks, with numbers that training never showed")
    for heading in ("", "before", "after"):
        table.add_column(heading, justify="left" if not heading else "right")
    for label, name in ROWS:
        table.add_row(label, *(_number(metrics.get(name)) for metrics in (before, after)))
    text = StringIO()
    Console(file=text, width=80, force_terminal=False).print(table)
    return text.getvalue()


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
