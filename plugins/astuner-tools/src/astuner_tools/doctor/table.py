"""The rows as a table: with borders and colours on a terminal, as plain text elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TextIO

from astuner_tools.doctor.rows import Row, Status

_STYLES: Mapping[Status, str] = {"ok": "green", "warning": "yellow", "missing": "dim", "broken": "bold red"}


def write_table(rows: Sequence[Row], stream: TextIO) -> None:
    """Write the table; nothing is cut off, even in a narrow terminal."""
    if stream.isatty():
        _draw(rows, stream)
    else:
        stream.write(format_plain(rows))


def format_plain(rows: Sequence[Row]) -> str:
    """Return one line per row under the name of its area, with remedies and further lines of a detail below it."""
    width = max(len(row.what) for row in rows)
    lines = []
    for area, group in groupby(rows, lambda row: row.area):
        lines.append(area)
        for row in group:
            first, *others = row.detail.split("\n")
            lines.append(f"  {row.status:<7}  {row.what:<{width}}  {first}".rstrip())
            lines += [f"{'':<{width + 13}}{text}" for text in (*others, *([f"remedy: {row.remedy}"] if row.remedy else []))]
    return "\n".join(lines) + "\n"


def _draw(rows: Sequence[Row], stream: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("area", "what", "status", "detail"):
        table.add_column(name, overflow="fold")
    area = None
    for row in rows:
        detail = Text(row.detail)
        if row.remedy:
            detail.append(f"\n{row.remedy}", style="cyan")
        table.add_row("" if row.area == area else row.area, Text(row.what), Text(row.status, style=_STYLES[row.status]), detail)
        area = row.area
    Console(file=stream).print(table)
