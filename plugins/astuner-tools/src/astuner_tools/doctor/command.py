"""`astuner doctor`."""

from __future__ import annotations

from pathlib import Path

import click

from astuner.cli.output import as_json, print_json

EXAMPLE = """\b
Example:
  astuner doctor --conf tune.yaml"""


@click.command(epilog=EXAMPLE)
@click.option("--conf", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Also check what this YAML needs.")
@as_json
def doctor(conf: Path | None, in_json: bool) -> int:
    """Show what is installed, what can run and what is missing. Exits with 1 if something is broken; shows no secrets."""
    from astuner_tools.doctor.report import examine
    from astuner_tools.doctor.table import format_rows

    report = examine(conf)
    if in_json:
        print_json({"healthy": report.healthy, "rows": [row.as_dict() for row in report.rows]})
    else:
        click.echo(format_rows(report.shown))
    return 0 if report.healthy else 1
