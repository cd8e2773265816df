"""The commands, core's and those of plugins: listed without being imported."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from astuner.cli.lazy import LazySubcommands
from astuner.settings.plugins.core_commands import select_group

SECTIONS = {1: "Begin", 2: "Train", 3: "Look at runs", 4: "Check and extend", 5: "Tasks and judges"}
"""Of the help, by the tens of the ranks that packages give their commands."""
LAST = 99


class CommandGroup(LazySubcommands):
    """The commands of core and of plugins in a group. One that cannot be imported is still in the help."""

    def __init__(self, *args: Any, group: str = "", **kwargs: Any) -> None:
        """`group` is what stands before the dot in the entry points of its commands; empty at the top level."""
        super().__init__(*args, subcommands=select_group(group), **kwargs)
        self._group = group

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return core's commands, then those of plugins."""
        from astuner.settings.plugins.command_entries import map_commands

        return [*super().list_commands(ctx), *map_commands(self._group)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command; raises `PluginError` naming a plugin whose import fails."""
        return super().get_command(ctx, cmd_name) or self._load_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the tables of commands without importing any: those of our packages in the order of their ranks, then others."""
        from astuner.settings.plugins.command_entries import map_commands
        from astuner.settings.plugins.command_help import read_command_help

        # Read without attrs, which help does not need.
        known = tomllib.loads(files("astuner").joinpath("shared", "known_packages.toml").read_text(encoding="utf-8"))
        ranks, packages = known["command_ranks"], known["components"]["command"]
        tables: dict[str, dict[str, str]] = {}
        prefix = f"{self._group}." if self._group else ""
        found = {name: (text, "") for name, (_, text) in self._subcommands.items()}
        for typed, one in map_commands(self._group).items():
            text, ours = (
                read_command_help(one.target, one.dist),
                packages.get(prefix + one.name, "").partition("[")[0] == one.dist,
            )
            found[typed] = text, "" if ours else f"({one.dist} {one.version})"
        for name in sorted(found, key=lambda name: ranks.get(name, LAST)):
            text, source = found[name]
            title = "Commands of plugins" if source else SECTIONS.get(ranks.get(name, LAST) // 10, "Commands")
            tables.setdefault(title, {})[name] = f"{text} {source}".strip()
        for title, rows in tables.items():
            with formatter.section(title):
                formatter.write_dl([*rows.items()])

    def _load_command(self, ctx: click.Context, typed: str) -> click.Command:
        from astuner.contract.errors import ConfigError, Problem, UsageError
        from astuner.settings.config.structure_errors import find_closest
        from astuner.settings.plugins.catalog import Catalog
        from astuner.settings.plugins.hooks import Hooks
        from astuner.shared.install_hints import command_for

        dist, slash, own = typed.rpartition("/")
        name = f"{self._group}.{own}" if self._group else own
        catalog = Catalog.discover(kinds=("command", "hook"))
        if not catalog.offers("command", f"{dist}{slash}{name}") and command_for("command", name) is None:
            close = find_closest(typed, self.list_commands(ctx))
            raise click.UsageError(str(Problem(message=f"no command '{typed}'.", suggestion=close)), ctx)
        key = " ".join(filter(None, ("astuner", self._group, typed)))
        try:
            candidate = catalog.find("command", f"{dist}{slash}{name}", config_dir=Path.cwd(), key=key)
        except ConfigError as error:
            raise UsageError(str(error)) from error
        # Without a configuration an extension may lack its options; runs report what is wrong with it.
        return Hooks(catalog, on_listener_error=lambda _: None).make_command(candidate)
