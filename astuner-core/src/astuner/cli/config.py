"""`astuner config`: whether a configuration is valid."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from astuner.cli.commands import CommandGroup
from astuner.cli.options import add_config_options
from astuner.cli.output import print_json
from astuner.cli.own_venv import enter_venv_of
from astuner.contract.errors import SeveralStages

config = CommandGroup("config", group="config", help="Check, show and explain a configuration.")


VALIDATE_EXAMPLE = """\b
Example:
  astuner config validate --conf tune.yaml --backbone local"""


@click.command(epilog=VALIDATE_EXAMPLE)
@add_config_options
def validate(conf: Path, backbone: str | None, overrides: Sequence[str], in_json: bool) -> None:
    """Check every key and every named component, and that the backbone acts on each key. Nothing is started."""
    from astuner.settings.planning.plan import plan_run
    from astuner.settings.plugins.functions import load_function

    enter_venv_of(conf, overrides, backbone)
    try:
        notices = plan_run(conf, overrides, backbone).notices
    except SeveralStages as stages:
        notices = load_function("check_stages", "stages: what checks them")(stages, conf, overrides, backbone)
    for notice in notices:
        click.echo(notice, err=True)
    print_json({"valid": True, "problems": [], "notices": notices}) if in_json else click.echo(f"{conf}: valid")
