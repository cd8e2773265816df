"""The commands, core's and those of plugins: listed without being imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from astuner.cli.lazy import LazySubcommands
from astuner.contract.errors import ConfigError, Problem, UsageError
from astuner.settings.config.structure_errors import find_closest
from astuner.settings.plugins.core_commands import CORE_COMMANDS

if TYPE_CHECKING:
    from astuner.contract.protocols import Candidate


class LazyGroup(LazySubcommands):
    """Core's commands, then those of plugins. One that cannot be imported is still in the help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return core's commands, then those of plugins."""
        return [*super().list_commands(ctx), *_list_plugin_commands()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; raises `PluginError` naming a plugin whose import fails."""
        return super().get_command(ctx, cmd_name) or _plugin_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the tables of commands without importing any."""
        super().format_commands(ctx, formatter)
        rows = [(spelling, _row(candidate)) for spelling, candidate in _list_plugin_commands().items()]
        if rows:
            with formatter.section("Commands of plugins"):
                formatter.write_dl(rows)


def _list_plugin_commands() -> Mapping[str, Candidate]:
    """Return the commands of plugins by what a user types."""
    from astuner.settings.plugins.catalog import Catalog

    return Catalog.discover(kinds=("command",)).map_spellings("command", taken=CORE_COMMANDS)


def _plugin_command(name: str) -> click.Command:
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.hooks import Hooks
    from astuner.shared.install_hints import command_for

    catalog = Catalog.discover(kinds=("command", "hook"))
    if not catalog.offers("command", name) and command_for("command", name) is None:
        close = find_closest(name, [*CORE_COMMANDS, *catalog.map_spellings("command", taken=CORE_COMMANDS)])
        raise click.UsageError(str(Problem(message=f"no command '{name}'.", suggestion=close)))
    try:
        candidate = catalog.find("command", name, config_dir=Path.cwd(), key=f"astuner {name}")
    except ConfigError as error:
        raise UsageError(str(error)) from error
    # Without a configuration an extension may lack its options; runs and `astuner doctor` report what is wrong with it.
    return Hooks(catalog, on_listener_error=lambda _: None).make_command(candidate)


def _row(candidate: Candidate) -> str:
    from astuner.settings.plugins.command_help import command_help

    lacks = f" Lacks {', '.join(candidate.missing)}: {candidate.remedy}" if candidate.missing else ""
    return f"{command_help(candidate)} ({candidate.provider}){lacks}".strip()
