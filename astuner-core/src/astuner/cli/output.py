"""What commands print: one JSON document, or a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click


def print_json(document: Any) -> None:
    """Print the sole document of `--json`."""
    click.echo(json.dumps(document, indent=2, ensure_ascii=False, default=str))


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a table of left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
