"""`astuner config schema`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from astuner.cli.output import as_json, print_json

EXAMPLE = """\b
Example:
  astuner config schema --out astuner.schema.json"""


@click.command(epilog=EXAMPLE)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file instead of stdout.")
@as_json
def schema(out: Path | None, in_json: bool) -> None:
    """Print the JSON Schema of the YAML, with the options of installed plugins, for completion and checks in editors."""
    from astuner.runs.store.atomic import write_text
    from astuner_tools.config_schema.json_schema import build_schema_text

    text = build_schema_text(on_broken=lambda message: click.echo(f"not checked: {message}", err=True))
    if out is not None:
        write_text(out, text, private=False)
    if in_json:
        print_json(json.loads(text) if out is None else {"file": out})
    elif out is None:
        click.echo(text, nl=False)
