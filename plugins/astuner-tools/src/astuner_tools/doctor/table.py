"""The rows as text: their states have colours, which `click.echo` leaves out where there is no terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

import click

from astuner_tools.doctor.rows import Row, Status

_COLOURS: Mapping[Status, str] = {"ok": "green", "warning": "yellow", "missing": "bright_black", "broken": "red"}


def format_rows(rows: Sequence[Row]) -> str:
    """Return one line per row under the name of its area, with remedies and further lines of a detail below it."""
    width = max(len(row.what) for row in rows)
    lines = []
    for area, group in groupby(rows, lambda row: row.area):
        lines.append(area)
        for row in group:
            first, *others = row.detail.split("\n")
            status = click.style(f"{row.status:<7}", fg=_COLOURS[row.status])
            lines.append(f"  {status}  {row.what:<{width}}  {first}".rstrip())
            lines += [f"{'':<{width + 13}}{text}" for text in (*others, *([f"remedy: {row.remedy}"] if row.remedy else []))]
    return "\n".join(lines)
