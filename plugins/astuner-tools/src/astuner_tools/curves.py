"""`Run.plot`: metrics as curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from astuner.contract.errors import UsageError
from astuner.runs.inspection import Run
from astuner.runs.store.metric_rows import read_curve
from astuner_tools.run_summary import REWARD, VALIDATION


def plot_run(run: Run, names: Sequence[str]) -> Any:
    """Draw metrics by step, the rewards if none is named, and return matplotlib's axes; points mark each validation.

    Raises `ImportError` without matplotlib, and `UsageError` for a metric that no row has.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Run.plot draws with matplotlib: pip install matplotlib") from error
    rows = run.read_rows()
    curves = {name: read_curve(rows, name) for name in names or (REWARD, VALIDATION)}
    if unknown := [name for name in names if not curves[name]]:
        raise UsageError(f"{run.path}: no row has the metric {', '.join(unknown)}")
    _, axes = pyplot.subplots()
    for name, points in curves.items():
        if points:
            axes.plot(*zip(*points, strict=True), marker="o" if name.startswith("val/") else "", label=name)
    axes.set_xlabel("step")
    axes.legend()
    return axes
