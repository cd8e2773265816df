"""The command group `trace`."""

from __future__ import annotations

import click

from astuner.cli.lazy import LazySubcommands

SUBCOMMANDS = {
    "collect": ("astuner_readers.tracing.collect_command:collect", "Receive traces and feedback over HTTP, into a file."),
    "import": ("astuner_readers.tracing.import_command:import_", "Make a data set of traces and what users said."),
}


@click.group(cls=LazySubcommands, subcommands=SUBCOMMANDS)
def trace() -> None:
    """Record a deployed agent, and make tasks of what it was asked."""
