"""`astuner config schema`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write it to this file, and nothing to stdout.")
def schema(out: Path | None) -> None:
    """Print the JSON Schema of the YAML, options of the installed plugins included: editors complete and check with it."""
    from astuner.errors import UsageError
    from astuner.planning.schema.json_schema import schema_text

    text = schema_text(on_broken=lambda message: click.echo(f"left free: {message}", err=True))
    if out is None:
        click.echo(text, nl=False)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written: {error.strerror}") from error
