"""`--with NAME` and its short forms, for the commands that play episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any

import click

SHORT: Mapping[str, str] = {
    "ray": "a Ray cluster of this machine, for this run alone",
    "appworld": "AppWorld's server, by APPWORLD_PATH and APPWORLD_SCRIPT",
    "logview": "the viewer of logs and episodes",
}
"""The services that have an option of their own."""


def service_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the argument `services`: the names asked for, those of the short forms first."""

    @wraps(command)
    def gathered(*, services: tuple[str, ...], **others: Any) -> Any:
        short = [name for name in SHORT if others.pop(f"with_{name}")]
        return command(services=(*short, *services), **others)

    for name, what in reversed(list(SHORT.items())):
        gathered = click.option(f"--with-{name}", is_flag=True, help=f"--with {name}: {what}.")(gathered)
    text = "Start a service first and end it after: one of `services` in the YAML, or of a package; repeatable."
    return click.option("--with", "services", multiple=True, metavar="NAME", help=text)(gathered)
