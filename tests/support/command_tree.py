"""Every command of the packages that are installed."""

from __future__ import annotations

from collections.abc import Iterator

import click

from astuner.cli import astuner


def walk(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield each command that does something, core's and those of all packages here, with what a user types."""
    if not isinstance(command, click.Group):
        yield path, command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        child = command.get_command(context, name)
        assert child is not None
        yield from walk(child, (*path, name))


COMMANDS = dict(walk(astuner, ("astuner",)))
