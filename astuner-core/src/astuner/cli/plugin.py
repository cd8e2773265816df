"""`astuner plugin`: list, show, check and create plugins."""

from __future__ import annotations

import click

from astuner.cli.lazy import LazySubcommands
from astuner.cli.options import as_json
from astuner.cli.output import align_columns, print_json
from astuner.cli.plugin_rows import describe_component, describe_status, find_kind

plugin = LazySubcommands(
    name="plugin",
    help="List, show, check and create plugins.",
    subcommands={
        "list": ("astuner.cli.plugin:list_", "List every installed component, and whether it can be imported."),
        "show": ("astuner.cli.plugin_show:show", "Show one component: origin, needs, options."),
        "check": ("astuner_devkit.check_command:check", "Check an installed distribution against the contracts."),
        "new": ("astuner_devkit.scaffold.command:new", "Create a small working package to start a plugin from."),
    },
)


EXAMPLE = """\b
Example:
  astuner plugin list --kind judge"""


@click.command("list", epilog=EXAMPLE)
@click.option("--kind", metavar="KIND", help="Only the components of this kind, such as `judge`.")
@as_json
def list_(kind: str | None, in_json: bool) -> None:
    """List every component that the installed distributions offer, and whether it can be imported, in a process of its own."""
    from astuner.settings.plugins.catalog import Catalog
    from astuner.settings.plugins.import_check import find_import_errors

    catalog = Catalog.discover() if kind is None else Catalog.discover(kinds=(find_kind(kind, "plugin list"),))
    errors = find_import_errors(catalog.all())
    rows = [describe_component(candidate, catalog, errors.get(candidate)) for candidate in catalog.all()]
    if in_json:
        print_json(rows)
    else:
        cells = [(row["kind"], row["name"], f"{row['dist']} {row['version']}", describe_status(row)) for row in rows]
        click.echo(align_columns([("KIND", "NAME", "FROM", "STATUS"), *cells]))
