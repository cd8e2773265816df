"""`astuner eval`."""

from __future__ import annotations

from pathlib import Path

import click

from astuner.cli.options import add_config_options, add_service_options
from astuner.cli.own_venv import enter_venv_of
from astuner.runs.driver.run_request import RunRequest

EXAMPLE = """\b
Examples:
  astuner eval --conf tune.yaml --checkpoint launcher_record/my-experiment/checkpoints/step_20 --json
  astuner eval --conf tune.yaml --checkpoint base --checkpoint best --checkpoint last --markdown results.md
  astuner eval --conf tune.yaml --checkpoint best --api gpt-4.1-mini@https://api.openai.com/v1
  astuner eval --conf tune.yaml --checkpoint base --checkpoint best --suite reasoning-gym:spell_backward"""


@click.command(name="eval", epilog=EXAMPLE, short_help="Evaluate checkpoints, models and APIs on the validation tasks.")
@add_config_options
@click.option(
    "--checkpoint",
    "checkpoints",
    multiple=True,
    metavar="NAME",
    help="`base` (the model of the YAML), `best`, `last` or a step of its run, or a directory; repeatable. By default `base`.",
)
@click.option(
    "--api",
    "apis",
    multiple=True,
    metavar="MODEL[@URL[,KEY]]",
    help="A model behind an OpenAI-compatible API; repeatable. KEY is the environment variable with the key, OPENAI_API_KEY by "
    "default, and URL is that of OPENAI_BASE_URL.",
)
@click.option(
    "--suite", metavar="NAME:WHAT", help="Tasks and judge of a suite instead: reasoning-gym:FAMILY, gsm8k:FILE; asked plainly."
)
@click.option("--markdown", type=click.Path(path_type=Path, dir_okay=False), help="Also write the tables to this file.")
@add_service_options
def evaluate(
    conf: Path,
    checkpoints: tuple[str, ...],
    apis: tuple[str, ...],
    suite: str | None,
    backbone: str | None,
    overrides: tuple[str, ...],
    markdown: Path | None,
    in_json: bool,
    services: tuple[str, ...],
) -> None:
    """Play the validation tasks, without training.

    With several contestants (--checkpoint, --api) each plays the same tasks with the same seeds, and is compared with the first.
    """
    from astuner.cli.output import print_json
    from astuner.runs.driver.control import unwind_on_sigterm
    from astuner.runs.store.atomic import write_text
    from astuner_tools.evaluations.evaluation import evaluate_contestants
    from astuner_tools.evaluations.playing import play_contestants
    from astuner_tools.evaluations.preparation import prepare
    from astuner_tools.evaluations.tables import format_markdown, format_text

    enter_venv_of(conf, overrides, backbone)
    prepared = prepare(RunRequest(conf=conf, backbone=backbone, overrides=overrides, services=services), checkpoints, apis, suite)
    with unwind_on_sigterm():
        played = play_contestants(prepared.match, prepared.contestants, lambda line: click.echo(line, err=True))
    found = evaluate_contestants(played, prepared.settings, prepared.seed)
    if markdown is not None:
        write_text(markdown, format_markdown(found), private=False)
    if in_json:
        # Of a single contestant its metrics are at the top.
        print_json({**(played[0].metrics if len(played) == 1 else {}), **found.to_json()})
        return
    if len(played) == 1:
        for name, value in played[0].metrics.items():
            click.echo(f"{name}  {value:.4g}")
        click.echo("")
    click.echo(format_text(found))
