"""Draws the curves of the runs on a pretrained model: success in training, step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

TITLES = {
    "shop": "An agent with a tool",
    "one_word": "A review in one word",
    "guess_number": "A number in three guesses",
}
COLOURS = ("#1f6feb", "#2da44e", "#8250df")
"""Of the seeds."""
COIN = "#8c959f"
WIDTH, HEIGHT = 290, 190
"""Of the inside of a panel."""
LEFT, TOP, GAP, BELOW = 54, 44, 34, 70
TICKS = (0, 25, 50, 75, 100)

Row = dict[str, Any]


def draw_curves(rows: Sequence[Row]) -> str:
    """Return an SVG: a panel for each tutorial, a line for each run."""
    width = LEFT + len(TITLES) * (WIDTH + GAP)
    height = TOP + HEIGHT + BELOW
    panels = [line for number, name in enumerate(TITLES) for line in draw_panel(name, LEFT + number * (WIDTH + GAP), rows)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">',
            f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
            *panels,
            *draw_legend(height - 16),
            "</svg>",
            "",
        ]
    )


def draw_panel(name: str, left: int, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the elements of a tutorial."""
    runs = [row for row in rows if row["tutorial"] == name and row["arm"] in ("reward", "coin")]
    steps = max((len(row["steps"]) for row in runs), default=8)
    yield f'<text x="{left}" y="{TOP - 18}" font-weight="bold" fill="#1f2328">{escape(TITLES[name])}</text>'
    for tick in TICKS:
        y = TOP + HEIGHT * (1 - tick / 100)
        yield f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d0d7de"/>'
        if name == next(iter(TITLES)):
            yield f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end" fill="#59636e">{tick} %</text>'
    for step in range(1, steps + 1, max(1, steps // 8)):
        x, y = place(left, step, steps), TOP + HEIGHT + 18
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="middle" fill="#59636e">{step}</text>'
    # The coin lies below the runs that learn.
    for row in sorted(runs, key=lambda row: (row["arm"] == "reward", row["seed"])):
        shares = [step["success"] for step in row["steps"]]
        points = [f"{place(left, number, steps):.1f},{TOP + HEIGHT * (1 - share):.1f}" for number, share in enumerate(shares, 1)]
        colour, dashes = (COIN, ' stroke-dasharray="5 4"') if row["arm"] == "coin" else (COLOURS[row["seed"]], "")
        yield f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>'


def place(left: int, step: int, steps: int) -> float:
    """Return where a step is."""
    return left + WIDTH * (step - 1) / max(1, steps - 1)


def draw_legend(y: int) -> Iterator[str]:
    """Yield what the lines mean."""
    entries = [(f"seed {seed}", colour, "") for seed, colour in enumerate(COLOURS)]
    entries.append(("a coin as reward", COIN, ' stroke-dasharray="5 4"'))
    for number, (text, colour, dashes) in enumerate(entries):
        x = LEFT + 110 * number
        yield f'<line x1="{x}" x2="{x + 24}" y1="{y - 4}" y2="{y - 4}" stroke="{colour}" stroke-width="2"{dashes}/>'
        yield f'<text x="{x + 30}" y="{y}" fill="#1f2328">{text}</text>'
    x, text = LEFT + 110 * len(entries) + 60, "successes among the episodes of each training step"
    yield f'<text x="{x}" y="{y}" fill="#59636e">{text}</text>'
