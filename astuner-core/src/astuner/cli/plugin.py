"""`astuner plugin`: list, show, check and create plugins."""

from __future__ import annotations

import click

from astuner.cli.commands import CommandGroup
from astuner.cli.output import align_columns, as_json, print_json
from astuner.cli.plugin_rows import describe_component, describe_status, find_kind

plugin = CommandGroup("plugin", group="plugin", help="List, show, check and create plugins.")


EXAMPLE = """\b
Example:
  astuner plugin list --kind judge"""


@click.command("list", epilog=EXAMPLE)
@click.option("--kind", metavar="KIND", help="Only the components of this kind, such as `judge`.")
@as_json
def list_(kind: str | None, in_json: bool) -> None:
    """List every component that the installed distributions offer, and what it lacks.

    Imports none of them: `astuner doctor` does.
    """
    from astuner.settings.plugins.catalog import Catalog

    catalog = Catalog.discover() if kind is None else Catalog.discover(kinds=(find_kind(kind, "plugin list"),))
    rows = [describe_component(candidate, catalog) for candidate in catalog.all()]
    if in_json:
        print_json(rows)
    else:
        cells = [(row["kind"], row["name"], f"{row['dist']} {row['version']}", describe_status(row)) for row in rows]
        click.echo(align_columns([("KIND", "NAME", "FROM", "STATUS"), *cells]))
