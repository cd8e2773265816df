"""`astuner config schema`."""

from __future__ import annotations

from pathlib import Path

import click

EXAMPLE = """\b
Example:
  astuner config schema --out astuner.schema.json"""


@click.command(epilog=EXAMPLE)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file instead of stdout.")
def schema(out: Path | None) -> None:
    """Print the JSON Schema of the YAML, with the options of installed plugins, for completion and checks in editors."""
    from astuner.runs.store.atomic import write_text
    from astuner_tools.config_schema.json_schema import build_schema_text

    text = build_schema_text(on_broken=lambda message: click.echo(f"not checked: {message}", err=True))
    if out is None:
        click.echo(text, nl=False)
        return
    write_text(out, text, private=False)
