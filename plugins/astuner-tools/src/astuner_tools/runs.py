"""`astuner runs`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
from attrs import asdict

from astuner.cli.output import align_columns, as_json, print_json
from astuner.episodes.transcript.terminal_text import format_seconds

if TYPE_CHECKING:
    from astuner_tools.run_summary import Summary

EXAMPLE = """\b
Examples:
  astuner runs
  astuner runs experiments --json"""


@click.command(epilog=EXAMPLE)
@click.argument("directory", default="launcher_record", type=click.Path(path_type=Path))
@as_json
def runs(directory: Path, in_json: bool) -> None:
    """List the runs in DIRECTORY (launcher_record by default) and below it.

    Of each: its state, training steps, the reward of the first and the last one, the best validation and its step, the time of
    all training steps, the tokens sampled in them, and its size. Checkpoints make most of it: delete those that you do not need
    (RUN/checkpoints/step_N), or let a run keep fewer (trainer_common.max_checkpoints_to_keep).
    """
    from astuner.contract.errors import UsageError
    from astuner.runs.inspection.run import Run
    from astuner.runs.inspection.run_search import list_run_paths
    from astuner.runs.store.checkpoints import list_unfinished
    from astuner_tools.run_summary import summarise

    problems: list[str] = []
    found = []
    for path in list_run_paths(directory, problems.append):
        try:
            run = Run(path, problems.append)
            found.append(summarise(run))
            if found[-1].status != "running" and (left := list_unfinished(run.directory).values()):
                remedy = "--resume deletes it, and so may you"
                problems.append(f"{run.directory.checkpoints}: a save that was killed has left {', '.join(left)}; {remedy}")
        except UsageError as error:
            problems.append(str(error))
    if in_json:
        print_json({"runs": [asdict(summary) for summary in found], "problems": problems})
    elif found:
        click.echo(format_runs(found, [_find_name(summary, directory) for summary in found]))
    for problem in problems if not in_json else ():
        click.echo(f"warning: {problem}", err=True)
    if not found and not problems:
        click.echo(f"no runs in {directory}", err=True)


def _find_name(summary: Summary, directory: Path) -> str:
    path = Path(summary.path)
    return str(path.relative_to(directory.absolute())) if path != directory.absolute() else summary.name


def format_runs(summaries: Sequence[Summary], names: Sequence[str]) -> str:
    """Return a table with a line for each run."""
    heads = ("NAME", "STATE", "STEPS", "REWARD", "BEST VALIDATION", "TIME", "TOKENS", "DISK")
    return align_columns([heads, *((name, *_format_cells(one)) for name, one in zip(names, summaries, strict=True))])


def _format_cells(summary: Summary) -> tuple[str, ...]:
    of = f" of {summary.planned_steps}" if summary.planned_steps else ""
    reward = f"{summary.first_reward:.3f} -> {summary.last_reward:.3f}" if summary.first_reward is not None else "-"
    lost = "" if summary.best_kept else ", not kept"
    best = f"{summary.best_validation:.3f} at step {summary.best_step}{lost}" if summary.best_validation is not None else "-"
    return (
        summary.status,
        f"{summary.steps}{of}",
        reward,
        best,
        format_seconds(summary.time_s),
        f"{summary.tokens:,}",
        format_size(summary.disk_bytes),
    )


def format_size(count: int) -> str:
    """Return bytes as `1.6 GB`, `12 MB` or `0 MB`."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
