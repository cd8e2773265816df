"""A whole path in a few numbers: columns of a small picture, the ends of scales, the worst tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from astuner_logview.tokens.measures import MEASURES
from astuner_logview.tokens.streams import TokenStream

COLUMNS = 800
"""At most this many columns are in the picture of a path."""
WORST = 50


def describe_minimap(stream: TokenStream) -> dict[str, Any]:
    """Return the means of each measure by column."""
    width = max(1, -(-len(stream) // COLUMNS))
    starts = np.arange(0, len(stream), width)
    sizes = np.diff(np.append(starts, len(stream)))
    share = np.add.reduceat(stream.trained.astype(np.float64), starts) / sizes
    kinds = np.add.reduceat(stream.sampled.astype(np.float64), starts) * 2 >= sizes
    means = {}
    for name, values in stream.values.items():
        known = np.isfinite(values)
        counts = np.add.reduceat(known.astype(np.float64), starts)
        sums = np.add.reduceat(np.where(known, values, 0).astype(np.float64), starts)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[name] = list_numbers(sums / counts)
    return {
        "columns": len(starts),
        "width": width,
        "of": means,
        "trained": [round(value, 4) for value in share.tolist()],
        "kind": kinds.astype(int).tolist(),
    }


def find_worst(stream: TokenStream) -> dict[str, list[dict[str, Any]]]:
    """Return the tokens at the bad end of each measure, the worst first."""
    return {name: _list_worst(stream, name, values) for name, values in stream.values.items()}


def find_ends(values: NDArray[Any]) -> tuple[float | None, float | None]:
    """Return the 2nd and the 98th percentile, each a value that occurs."""
    # Not numpy.percentile: it imports numpy.ma, which takes longer than the rest of the answer.
    known = np.sort(values[np.isfinite(values)])
    if not len(known):
        return None, None
    last = len(known) - 1
    return float(known[round(0.02 * last)]), float(known[round(0.98 * last)])


def list_numbers(values: NDArray[Any]) -> list[float | None]:
    """Return numbers with five digits; None for those that are not finite."""
    return [float(f"{value:.5g}") if value - value == 0 else None for value in values.tolist()]


def _list_worst(stream: TokenStream, name: str, values: NDArray[Any]) -> list[dict[str, Any]]:
    known = np.flatnonzero(np.isfinite(values))
    numbers = values[known].astype(np.float64)
    bad = {"low": numbers, "high": -numbers, "size": -np.abs(numbers)}[MEASURES[name].worst]
    if len(known) > WORST:
        some = np.argpartition(bad, WORST)[:WORST]
        known, bad = known[some], bad[some]
    order = known[np.lexsort((known, bad))]
    return [{"index": place, "text": _read_text(stream.texts, place), "value": float(values[place])} for place in order.tolist()]


def _read_text(texts: Sequence[str] | None, place: int) -> str | None:
    return None if texts is None else texts[place]
