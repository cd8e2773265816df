"""`astuner eval`."""

from __future__ import annotations

from pathlib import Path

import click

from astuner.cli.options import add_service_options
from astuner.cli.own_venv import enter_venv_of
from astuner.runs.driver.launch import evaluate_run
from astuner.runs.driver.run_request import RunRequest

EXAMPLE = """\b
Example:
  astuner eval --conf tune.yaml --checkpoint launcher_record/my-experiment/checkpoints/step_20 --json"""


@click.command(name="eval", epilog=EXAMPLE)
@click.option("--conf", required=True, type=click.Path(path_type=Path), help="The YAML of the run.")
@click.option(
    "--checkpoint",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="The checkpoint to evaluate; model.path by default.",
)
@click.option("--backbone", help="The backbone that evaluates; overrides `backbone` of the YAML.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override one key of the YAML; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the metrics as one JSON document on stdout.")
@add_service_options
def evaluate(
    conf: Path,
    checkpoint: Path | None,
    backbone: str | None,
    overrides: tuple[str, ...],
    as_json: bool,
    services: tuple[str, ...],
) -> None:
    """Run only the validation pass."""
    enter_venv_of(conf, overrides, backbone)
    request = RunRequest(conf=conf, backbone=backbone, overrides=overrides, services=services)
    outcome = evaluate_run(request, checkpoint.resolve() if checkpoint else None)
    metrics = dict(outcome.after or {})
    if as_json:
        import json

        click.echo(json.dumps(metrics))
        return
    for name, value in metrics.items():
        click.echo(f"{name}  {value:.4g}")
