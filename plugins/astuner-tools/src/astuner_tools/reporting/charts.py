"""Where the lines and the words of a chart are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from astuner_tools.reporting.evidence import format_number

WIDTH, HEIGHT = 640, 220
LEFT, RIGHT, TOP, BOTTOM = 72, 12, 14, 34
MOST_MARKS = 400
"""Points of one curve up to which each has a mark."""

Points = Sequence[tuple[int, float]]


def plan_chart(curves: Mapping[str, Points]) -> dict[str, Any]:
    """Return the places of curves by step, in pixels of a frame of `width` and `height`, and of the numbers of its axes.

    The values begin at 0, or at the lowest one below it.
    """
    points = [point for curve in curves.values() for point in curve]
    first, last = min(step for step, _ in points), max(step for step, _ in points)
    low, high = min(0.0, *(value for _, value in points)), max(0.0, *(value for _, value in points))
    width, height = max(last - first, 1), high - low or 1.0

    def place(step: float, value: float) -> tuple[float, float]:
        x = LEFT + (step - first) / width * (WIDTH - LEFT - RIGHT)
        return round(x, 1), round(HEIGHT - BOTTOM - (value - low) / height * (HEIGHT - TOP - BOTTOM), 1)

    levels = (low, low + height / 2, low + height)
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "levels": [(place(first, value)[1], format_number(float(f"{value:.3g}"))) for value in levels],
        "steps": [(place(step, low)[0], step) for step in sorted({first, (first + last) // 2, last})],
        "curves": [
            {
                "name": name,
                "line": " ".join("{},{}".format(*place(*point)) for point in curve),
                "radius": 3.5 if len(curve) == 1 or name.startswith("val/") else 2,
                "marks": [(*place(*at), at[0], format_number(at[1])) for at in curve if len(curve) <= MOST_MARKS],
            }
            for name, curve in curves.items()
        ],
    }
