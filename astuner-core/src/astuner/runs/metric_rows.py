"""The rows of a run's `metrics.jsonl`, as far as they can be read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from attrs import frozen


@frozen(kw_only=True)
class MetricRow:
    """The metrics of a training step or of a validation."""

    step: int
    kind: Literal["train", "validation"]
    values: Mapping[str, float]
    """Those that are numbers."""


def read_metric_rows(path: Path) -> list[MetricRow]:
    """Return the rows in the order of the file; a line that is damaged, or cut short by a crash, is left out."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(row, dict) or not isinstance(row.get("step"), int) or row.get("kind") not in ("train", "validation"):
            continue
        values = {name: float(value) for name, value in row.items() if isinstance(value, int | float) and name != "step"}
        found.append(MetricRow(step=row["step"], kind=row["kind"], values=values))
    return found
