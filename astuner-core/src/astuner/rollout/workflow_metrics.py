"""The numbers that a workflow reports: what is not a finite number is left out, and counted."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any


def find_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers of a workflow's `log_metrics`; NumPy's scalars and truth values are numbers too."""
    found = ((str(name), _read_number(value)) for name, value in metrics.items())
    return {name: number for name, number in found if number is not None}


class DroppedMetrics:
    """Counts the values of a run's workflow metrics that are not finite numbers."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._notified: set[tuple[str, str]] = set()

    def add(self, metrics: Mapping[str, Any]) -> None:
        """Count what `find_numbers` leaves out of an episode's metrics."""
        for name, value in metrics.items():
            if _read_number(value) is None:
                kind = repr(value) if isinstance(value, float) else type(value).__name__
                self._counts[str(name), kind] += 1

    def take_notices(self) -> Iterator[str]:
        """Yield a notice for each metric and type of value that has none yet."""
        for (name, kind), count in self._counts.items():
            if (name, kind) not in self._notified:
                self._notified.add((name, kind))
                yield (
                    f"WorkflowOutput.log_metrics[{name!r}] must be a finite number and was {kind} in {count} episodes: it is "
                    f"left out there. Put it into `metadata` if a judge needs it."
                )


def _read_number(value: Any) -> float | None:
    # NumPy's truth values and tensors with one element are no `Real`.
    item = getattr(value, "item", None)
    try:
        value = item() if callable(item) else value
    except (TypeError, ValueError, RuntimeError):
        return None
    return float(value) if isinstance(value, Real) and math.isfinite(value) else None
