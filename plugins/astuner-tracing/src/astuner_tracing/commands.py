"""The command group `trace`."""

from __future__ import annotations

import click

from astuner.cli.lazy import LazySubcommands

SUBCOMMANDS = {
    "collect": (
        "astuner_tracing.collect_command:collect",
        "Receive traces and feedback over HTTP and write them to a file.",
    ),
    "import": ("astuner_tracing.import_command:import_", "Make a data set from traces and feedback."),
}


@click.group(cls=LazySubcommands, subcommands=SUBCOMMANDS)
def trace() -> None:
    """Record a deployed agent, and make tasks from its conversations."""
