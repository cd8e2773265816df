"""Groups whose commands are imported when they are used."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


def import_command(target: str) -> click.Command:
    """Import a command by `module:attribute`."""
    module, _, attribute = target.partition(":")
    command: click.Command = getattr(importlib.import_module(module), attribute)
    return command


class LazySubcommands(click.Group):
    """A group that knows the names and help texts of its commands, and imports only the one used."""

    def __init__(self, *args: Any, subcommands: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        """`subcommands` are (`module:attribute`, help text) by name, in the order of the help."""
        super().__init__(*args, **kwargs)
        self._subcommands = subcommands

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in their order."""
        return list(self._subcommands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        return import_command(self._subcommands[cmd_name][0]) if cmd_name in self._subcommands else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the table of commands without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in self._subcommands.items()])
