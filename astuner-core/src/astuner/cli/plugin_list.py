"""`astuner plugin list`."""

from __future__ import annotations

import json

import click

from astuner.cli.output import align_columns
from astuner.cli.plugin_rows import as_json, describe_component, describe_status, find_kind


@click.command("list")
@click.option("--kind", metavar="KIND", help="Only the components of this kind, such as `judge`.")
@as_json
def list_(kind: str | None, in_json: bool) -> None:
    """List every component that the installed distributions offer, without importing any."""
    from astuner.plugins.catalog import Catalog

    catalog = Catalog.discover() if kind is None else Catalog.discover(kinds=(find_kind(kind, "plugin list"),))
    rows = [describe_component(candidate, catalog) for candidate in catalog.all()]
    if in_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = [(row["kind"], row["name"], f"{row['dist']} {row['version']}", describe_status(row)) for row in rows]
        click.echo(align_columns([("KIND", "NAME", "FROM", "STATUS"), *cells]))
