"""What commands print: one JSON document, or a table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import Any, TextIO

import click


@contextmanager
def reserve_stdout() -> Iterator[TextIO | None]:
    """Yield stdout for the JSON alone: what else is printed in the block, by child processes too, goes to stderr."""
    stdout, number = sys.stdout, 1 if sys.stdout is sys.__stdout__ and sys.stdout is not None else None
    if number is not None:
        stdout = open(os.dup(number), "w", encoding=stdout.encoding)  # noqa: SIM115 - closed below
        with suppress(OSError):  # there may be no stderr
            os.dup2(2, number)
    try:
        with redirect_stdout(sys.stderr):
            yield stdout
    finally:
        if number is not None:
            os.dup2(stdout.fileno(), number)
            with suppress(OSError):  # whoever read it is gone
                stdout.close()


def print_json(document: Any, *, indent: int | None = 2, stream: TextIO | None = None) -> None:
    """Print the document of `--json`, or a line of it: numbers that are not finite become null, and paths absolute."""
    context = click.get_current_context(silent=True)
    encoded = json.dumps(document, default=lambda other: str(other.absolute() if isinstance(other, Path) else other))
    text = json.dumps(json.loads(encoded, parse_constant=lambda name: None), indent=indent, ensure_ascii=False)
    # A lone surrogate becomes its escape in JSON.
    click.echo(text.encode(errors="backslashreplace").decode(), file=stream or (context and context.find_root().obj))


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a table of left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
