"""`astuner plugin list`."""

from __future__ import annotations

import json

import click

from astuner.cli.plugin_rows import aligned, as_json, row_of, status_of


@click.command("list")
@as_json
def list_(in_json: bool) -> None:
    """List every component that the installed distributions offer. Imports none of them."""
    from astuner.plugins.catalog import Catalog

    rows = [row_of(candidate) for candidate in Catalog.discover().all()]
    if in_json:
        click.echo(json.dumps(rows, indent=2))
    else:
        cells = [(row["kind"], row["name"], f"{row['dist']} {row['version']}", status_of(row)) for row in rows]
        click.echo(aligned([("KIND", "NAME", "FROM", "STATUS"), *cells]))
