"""`astuner run`."""

from __future__ import annotations

from typing import Any

import click

from astuner.cli.options import add_config_options, add_service_options
from astuner.cli.output import print_json
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
@add_config_options
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
def run(*, dry_run: bool, in_json: bool, **asked: Any) -> None:
    """Train the model behind an agent.

    With --json, a line of JSON for each notice, the metrics of each step, and the end.
    """
    from astuner.settings.plugins.functions import load_function

    request = RunRequest(**asked)
    if request.accept_changes and not request.resumes:
        raise UsageError("--accept-changes is about resuming a run: add --resume")
    enter_venv_of(request.conf, request.overrides, request.backbone)
    if dry_run:
        estimate = load_function("estimate_cost", "--dry-run: what estimates a run")
        text = estimate(request.conf, request.overrides, request.backbone, request.services)
        print_json({"estimate": text.splitlines()}) if in_json else click.echo(text)
        return
    start = load_function("print_run", "--json: what prints a run line by line") if in_json else start_run
    click.echo(start(request).format_end(), err=True)
