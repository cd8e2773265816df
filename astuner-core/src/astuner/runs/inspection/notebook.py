"""How a run shows itself in a notebook."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from astuner.contract.errors import UsageError
from astuner.runs.inspection.summary import REWARD, VALIDATION, summarise
from astuner.runs.store.metric_rows import read_curve

if TYPE_CHECKING:
    from astuner.runs.inspection.run import Run


def render_run(run: Run) -> str:
    """Return the run's state, steps, rewards and directory."""
    found = summarise(run).to_json()
    named = ("status", "detail", "steps", "planned_steps", "first_reward", "last_reward", "best_validation", "best_step", "path")
    shown = ((name, f"{found[name]:.3f}" if isinstance(found[name], float) else str(found[name])) for name in named)
    lines = (f"{name.replace('_', ' '):<16}{text}" for name, text in shown if text not in ("", "None"))
    text = "\n".join((run.name, *lines))
    return f"<pre>{escape(text)}</pre>"


def plot_run(run: Run, names: Sequence[str]) -> Any:
    """Draw curves by step; a validation, which is played every few steps, has its points marked."""
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
