"""A small chart of curves as text: one panel for each, side by side, with the same axes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

Point = tuple[int, float]

EIGHTHS = " ▁▂▃▄▅▆▇█"
HEIGHT = 6
NARROWEST = 24
"""Columns of a panel."""


@frozen(kw_only=True)
class _Axes:
    """The ranges that all panels share."""

    first: int
    last: int
    low: float
    high: float

    def height_of(self, value: float) -> int:
        """Return a value in eighths of a line; the lowest is still seen."""
        span = self.high - self.low
        return max(1, round((value - self.low) / span * 8 * HEIGHT)) if span else 1

    def column_of(self, step: int, width: int) -> int:
        span = self.last - self.first
        return round((step - self.first) / span * (width - 1)) if span else 0


def draw_curves(names: Sequence[str], curves: Sequence[Sequence[Point]], *, width: int) -> str:
    """Return a panel for each curve, as many next to each other as fit; empty if there are no points."""
    points = [point for curve in curves for point in curve]
    if not points:
        return ""
    steps, values = [step for step, _ in points], [value for _, value in points]
    axes = _Axes(first=min(steps), last=max(steps), low=min(0.0, *values), high=max(values))
    scale = (f"{axes.high:.3g}", f"{axes.low:.3g}")
    margin = max(map(len, scale))
    beside = max(1, (width - margin) // (NARROWEST + 2))
    panel = min(3 * NARROWEST, (width - margin) // min(beside, len(names)) - 2)
    lines: list[str] = []
    for start in range(0, len(names), beside):
        part = slice(start, start + beside)
        panels = [_draw_panel(name, curve, axes, panel) for name, curve in zip(names[part], curves[part], strict=True)]
        heads = ["", scale[0], *[""] * (HEIGHT - 2), scale[1], ""]
        lines += [f"{head:>{margin}}" + "".join(cells) for head, cells in zip(heads, zip(*panels, strict=True), strict=True)]
    return "\n".join(line.rstrip() for line in lines)


def _draw_panel(name: str, curve: Sequence[Point], axes: _Axes, width: int) -> list[str]:
    heights = _fill_columns(curve, axes, width)
    shown = name if len(name) <= width else f"…{name[1 - width :]}"
    steps = f"{axes.first:<{width - len(str(axes.last))}}{axes.last}"
    return [f"  {shown:{width}}", *(f" |{line}" for line in _draw_bars(heights)), f"  {steps:{width}}"]


def _fill_columns(curve: Sequence[Point], axes: _Axes, width: int) -> list[int]:
    """Return the height of each column; between two points a curve stays where it was, and it ends with its last point."""
    found = {axes.column_of(step, width): axes.height_of(value) for step, value in curve}
    heights, current = [], 0
    for column in range(width):
        current = found.get(column, current)
        heights.append(current if column <= max(found, default=-1) else 0)
    return heights


def _draw_bars(heights: Sequence[int]) -> Iterator[str]:
    for line in reversed(range(HEIGHT)):
        yield "".join(EIGHTHS[min(8, max(0, height - 8 * line))] for height in heights)
