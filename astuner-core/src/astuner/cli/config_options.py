"""What the commands of `astuner config` share: the options that choose a configuration, and JSON on stdout."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def add_config_options(command: F) -> F:
    """Add the options that choose a configuration, and `--json`."""
    file = click.Path(exists=True, dir_okay=False, path_type=Path)
    for option in (
        click.option("--json", "in_json", is_flag=True, help="One JSON document on stdout."),
        click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Override one key of the YAML; repeatable."),
        click.option("--backbone", metavar="NAME", help="The backbone; overrides `backbone` of the YAML."),
        click.option("--conf", type=file, required=True, help="The YAML of the run."),
    ):
        command = option(command)
    return command
