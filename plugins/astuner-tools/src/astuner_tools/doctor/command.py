"""`astuner doctor`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

from astuner.cli.options import as_json
from astuner.cli.output import print_json

EXAMPLE = """\b
Example:
  astuner doctor --conf tune.yaml"""


@click.command(epilog=EXAMPLE)
@click.option("--conf", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Also check what this YAML needs.")
@as_json
def doctor(conf: Path | None, in_json: bool) -> int:
    """Show what is installed, what can run and what is missing. Exits with 1 if something is broken; shows no secrets."""
    from astuner_tools.doctor.report import examine
    from astuner_tools.doctor.table import write_table

    # What the user's code prints must not mix with the rows or the JSON document.
    with contextlib.redirect_stdout(sys.stderr):
        report = examine(conf)
    if in_json:
        print_json({"healthy": report.healthy, "rows": [row.as_dict() for row in report.rows]})
    else:
        write_table(report.shown, sys.stdout)
    return 0 if report.healthy else 1
