"""What commands print: one JSON document, or a table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import click

as_json = click.option("--json", "in_json", is_flag=True, help="One JSON document on stdout.")


@contextmanager
def reserve_stdout() -> Iterator[TextIO]:
    """Yield stdout for the JSON alone: what else is printed in the block, by child processes too, goes to stderr."""
    stdout = sys.stdout
    with ExitStack() as stack:
        if stdout is sys.__stdout__ and stdout is not None and sys.stderr is not None:
            stdout = stack.enter_context(open(os.dup(1), "w", encoding=stdout.encoding))
            stack.callback(os.dup2, stdout.fileno(), 1)
            os.dup2(2, 1)
        stack.enter_context(redirect_stdout(sys.stderr))
        yield stdout


def print_json(document: Any, *, indent: int | None = 2, stream: TextIO | None = None) -> None:
    """Print the document of `--json`, or a line of it: numbers that are not finite become null, and paths absolute."""
    if stream is None and (context := click.get_current_context(silent=True)) is not None:
        stream = context.find_root().obj

    def encode(other: Any) -> str:
        # Where a problem has its file, there may be `--set a.b`.
        return str(other.absolute() if isinstance(other, Path) and not str(other).startswith("--") else other)

    encoded = json.dumps(document, default=encode)
    text = json.dumps(json.loads(encoded, parse_constant=lambda name: None), indent=indent, ensure_ascii=False)
    # A lone surrogate becomes its escape in JSON.
    click.echo(text.encode(errors="backslashreplace").decode(), file=stream)


def align_columns(rows: Sequence[Sequence[str]]) -> str:
    """Return rows of cells as a table of left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
