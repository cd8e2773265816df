"""Options that several commands take."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from astuner.cli.output import as_json
from astuner.shared.known_packages import read_known_packages

F = TypeVar("F", bound=Callable[..., Any])

SHORT: Mapping[str, str] = {"ray": "a Ray cluster on this machine, for this run only", **read_known_packages().short_services}
"""The services that have their own option."""


def add_config_options(command: F) -> F:
    """Add the options that choose a configuration, and `--json`."""
    for option in (
        as_json,
        click.option("--set", "overrides", multiple=True, metavar="A.B=C", help="Override one key of the YAML; repeatable."),
        click.option("--backbone", metavar="NAME", help="The backbone; overrides `backbone` of the YAML."),
        click.option("--conf", type=click.Path(path_type=Path), required=True, help="The YAML of the run."),
    ):
        command = option(command)
    return command


def add_service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the argument `services`: what `--with NAME` requests, and its short forms, which come first."""

    @wraps(command)
    def collect_services(*, services: tuple[str, ...], **others: Any) -> Any:
        short = [name for name in SHORT if others.pop(f"with_{name}")]
        return command(services=(*short, *services), **others)

    for name, what in reversed(list(SHORT.items())):
        collect_services = click.option(f"--with-{name}", is_flag=True, help=f"--with {name}: {what}.")(collect_services)
    text = "Start this service before the run and stop it after: one from `services` in the YAML, or from a package; repeatable."
    return click.option("--with", "services", multiple=True, metavar="NAME", help=text)(collect_services)
