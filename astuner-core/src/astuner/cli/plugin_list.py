"""`astuner plugin list`."""

from __future__ import annotations

import json

import click

from astuner.cli.output import aligned
from astuner.cli.plugin_rows import as_json, kind_named, row_of, status_of


@click.command("list")
@click.option("--kind", metavar="KIND", help="Only the components of this kind, as `judge`.")
@as_json
def list_(kind: str | None, in_json: bool) -> None:
    """List every component that the installed distributions offer. Imports none of them."""
    from astuner.plugins.catalog import Catalog

    catalog = Catalog.discover() if kind is None else Catalog.discover(kinds=(kind_named(kind, "plugin list"),))
    rows = [row_of(candidate, catalog) for candidate in catalog.all()]
    if in_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = [(row["kind"], row["name"], f"{row['dist']} {row['version']}", status_of(row)) for row in rows]
        click.echo(aligned([("KIND", "NAME", "FROM", "STATUS"), *cells]))
