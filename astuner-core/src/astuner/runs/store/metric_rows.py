"""Reading `metrics.jsonl`, also of a run that is writing it or that was killed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.runs.store.record_files import read_stored

Row = dict[str, Any]
"""`step`, `kind` (`train` or `validation`) and the metrics by name; None stands for a number that is not finite."""


@frozen(kw_only=True)
class MetricRows:
    """The rows of a file, in the order in which they were written."""

    rows: Sequence[Row]
    damaged: Sequence[int]
    """Lines that are not rows, from 1."""


def read_metric_rows(path: Path) -> MetricRows:
    """Read a file that may not exist; a last line without an end is still being written, and is left out."""
    rows, damaged = [], []
    content = read_stored(path) if path.exists() else b""
    for number, line in enumerate(content[: content.rfind(b"\n") + 1].splitlines(), 1):
        row = _parse_row(line)
        if row is None:
            damaged.append(number)
        else:
            rows.append(row)
    return MetricRows(rows=rows, damaged=damaged)


def read_curve(rows: Iterable[Row], name: str) -> list[tuple[int, float]]:
    """Return the steps and values of a metric, by step; of several rows of a step the last one with it counts."""
    found = {row["step"]: row[name] for row in rows if isinstance(row.get(name), int | float)}
    return sorted(found.items())


def _parse_row(line: bytes) -> Row | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    valid = isinstance(row, dict) and isinstance(row.get("step"), int) and isinstance(row.get("kind"), str)
    return row if valid else None
