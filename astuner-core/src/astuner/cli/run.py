"""`astuner run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from astuner.cli.options import add_service_options
from astuner.cli.own_venv import enter_venv_of
from astuner.contract.errors import UsageError
from astuner.runs.driver.launch import start_run
from astuner.runs.driver.run_outcome import RunOutcome
from astuner.runs.driver.run_request import RunRequest
from astuner.runs.driver.source_changes import KINDS

__all__ = ["RunOutcome", "RunRequest", "run", "start_run"]


EXAMPLE = """\b
Examples:
  astuner run --conf tune.yaml --backbone local
  astuner run --conf tune.yaml --set rollout.temperature=0.7 --dry-run
  astuner run --conf tune.yaml --backbone debug --db all"""


@click.command(epilog=EXAMPLE)
@click.option("--conf", required=True, type=click.Path(path_type=Path), help="The YAML of the run.")
@click.option("--backbone", help="The backbone that trains; overrides `backbone` of the YAML.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one key of the YAML; repeatable.")
@click.option("--resume", is_flag=True, help="Continue an unfinished run; nothing is generated twice.")
@click.option(
    "--resume-from",
    metavar="STEP",
    help="Continue from this checkpoint: a step, `best` or `last`. Stored episodes after it are replayed.",
)
@click.option(
    "--accept-changes",
    type=click.Choice(KINDS),
    multiple=True,
    help="Resume although these have changed, and play the stored episodes after the checkpoint again: tasks (data), files of "
    "the model and defaults of another version, which are refused otherwise, or code, which is reported; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Check everything and print what the run would take, without starting it.")
@click.option(
    "--db", "stop_at", multiple=True, metavar="TAG[,TAG]...", help="Stop at astuner.breakpoint(TAG); `all` means every tag."
)
@click.option("--fresh", is_flag=True, help="Restart servers that an earlier run kept warm.")
@add_service_options
def run(*, dry_run: bool, **asked: Any) -> None:
    """Train the model behind an agent."""
    request = RunRequest(**asked)
    if request.accept_changes and not request.resumes:
        raise UsageError("--accept-changes is about resuming a run: add --resume")
    enter_venv_of(request.conf, request.overrides, request.backbone)
    if dry_run:
        from astuner.settings.plugins.functions import load_function

        estimate = load_function("estimate_cost", "--dry-run: what estimates a run")
        click.echo(estimate(request.conf, request.overrides, request.backbone, request.services))
        return
    outcome = start_run(request)
    click.echo(outcome.format_end(), err=True)
