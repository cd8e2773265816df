"""`--with NAME` and its short forms, for the commands that play episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

from astuner.published import read_published

SHORT: Mapping[str, str] = {
    "ray": "a Ray cluster on this machine, for this run only",
    **read_published().short_services,
    "logview": "the viewer for logs and episodes",
}
"""The services that have their own option."""


def add_service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument `services`: the requested names, those of the short forms first."""

    @wraps(command)
    def collect_services(*, services: tuple[str, ...], **others: Any) -> Any:
        short = [name for name in SHORT if others.pop(f"with_{name}")]
        return command(services=(*short, *services), **others)

    for name, what in reversed(list(SHORT.items())):
        collect_services = click.option(f"--with-{name}", is_flag=True, help=f"--with {name}: {what}.")(collect_services)
    text = "Start this service before the run and stop it after: one from `services` in the YAML, or from a package; repeatable."
    return click.option("--with", "services", multiple=True, metavar="NAME", help=text)(collect_services)
