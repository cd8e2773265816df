"""Reading `metrics.jsonl`, also of a run that is writing it or that was killed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.runs.store.record_files import read_stored

_HEAD = re.compile(rb'\{"step": ([0-9]{1,9}), "kind": "([a-z]+)"')
_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?(?=[,}])")

Row = dict[str, Any]
"""`step`, `kind` (`train` or `validation`) and the metrics by name; None stands for a number that is not finite."""


@frozen(kw_only=True)
class MetricRows:
    """The rows of a file, in the order in which they were written."""

    rows: Sequence[Row]
    damaged: Sequence[int]
    """Lines that are not rows, from 1."""


def read_metric_rows(path: Path, names: Sequence[str] | None = None) -> MetricRows:
    """Read a file that may not exist; a last line without an end is still being written, and is left out.

    With `names`, rows have these metrics alone, and damage inside of others is not looked for.
    """
    rows, damaged = [], []
    marks = None if names is None else [(name, f', "{name}": '.encode()) for name in names]
    content = read_stored(path) if path.exists() else b""
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        row = None if marks is None else _pick_metrics(line, marks)
        row = row or _parse_row(line)
        if row is None:
            damaged.append(number)
        else:
            rows.append(row)
    return MetricRows(rows=rows, damaged=damaged)


def read_curve(rows: Iterable[Row], name: str) -> list[tuple[int, float]]:
    """Return the steps and values of a metric, by step; of several rows of a step the last one with it counts."""
    found = {row["step"]: row[name] for row in rows if isinstance(row.get(name), int | float)}
    return sorted(found.items())


def _pick_metrics(line: bytes, marks: Sequence[tuple[str, bytes]]) -> Row | None:
    """Return some metrics of a row; None if the line is not as core writes it."""
    head = _HEAD.match(line)
    if head is None or not line.endswith(b"}"):
        return None
    row: Row = {"step": int(head[1]), "kind": head[2].decode()}
    for name, mark in marks:
        if (at := line.find(mark)) >= 0 and (found := _NUMBER.match(line, at + len(mark))) is not None:
            row[name] = float(found[0])
    return row


def _parse_row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    valid = isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("kind"), str)
    return row if valid else None
