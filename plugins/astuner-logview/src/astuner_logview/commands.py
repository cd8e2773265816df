"""`astuner logview`."""

from __future__ import annotations

from pathlib import Path

import click

from astuner.cli.lazy import import_command

SUBCOMMANDS = {
    "show": ("astuner_logview.show_command:show", "Show runs in the browser."),
    "export": ("astuner_logview.export_command:export", "Write a group or an episode as one file."),
}


class _ShowsByDefault(click.Group):
    """Imports the command that is used; arguments that name none are those of `show`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return import_command(SUBCOMMANDS[cmd_name][0]) if cmd_name in SUBCOMMANDS else None

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = args[0] if args else ""
        if first not in SUBCOMMANDS and first != "--help":
            args = ["show", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in SUBCOMMANDS.items()])


@click.group(cls=_ShowsByDefault)
def logview() -> None:
    """Look at runs, groups, episodes and tokens in the browser.

    `astuner logview [DIR]...` is short for `astuner logview show [DIR]...`.
    """


def find_directory(name: Path) -> Path:
    """Return a directory by its path, or by its name in `launcher_record`; raises `UsageError` if there is none."""
    from astuner.runs.inspection import RECORD, open_run

    for path in (name, RECORD / name):
        if path.is_dir():
            return path
    return open_run(name).path
