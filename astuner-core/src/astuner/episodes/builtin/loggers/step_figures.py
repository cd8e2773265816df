"""What the console shows of a step: its figures in fixed columns, and what becomes of its calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Row = tuple[int, Mapping[str, float]]
"""A step and its metrics."""

COLUMNS = ("reward", "success", "pass@", "kl", "loss", "tokens/s", "time")
"""Their order, whatever a row has first; `pass@` stands for `pass@4`."""

MOST_ROWS = 40
"""Rows of the table that a run leaves behind."""

_WATERFALL = (
    ("calls", "signal/calls"),
    ("episodes", "signal/episodes"),
    ("samples", "signal/samples"),
    ("trainable", "signal/tokens_trainable"),
    ("with signal", "signal/tokens_nonzero_advantage"),
)
"""How the calls of a step become tokens that change the weights."""

_WATERFALL_NOTES = (("lost", "signal/lost/"), ("failed with a reward", "signal/failed/"), ("played again", "signal/retries/"))
"""What is counted next to it, by reason."""


def format_label(step: int, metrics: Mapping[str, float]) -> str:
    """Return the number of a step, marked if the row is a validation's."""
    return f"{step} val" if any(name.startswith("val/") for name in metrics) and "reward/mean" not in metrics else str(step)


def format_figures(metrics: Mapping[str, float]) -> list[tuple[str, str]]:
    """Return the most important metrics, named and formatted, in reading order."""
    found: list[tuple[str, str]] = []
    for prefix, name, total in (("", "", "signal/episodes"), ("val/", "val ", "val/episodes")):
        if f"{prefix}reward/mean" in metrics:
            spread = metrics.get(f"{prefix}reward/std")
            mean = f"{metrics[f'{prefix}reward/mean']:.3f}"
            share = _format_share(metrics, f"{prefix}reward/count", total)
            found.append((f"{name}reward", (mean if spread is None else f"{mean} ±{spread:.3f}") + share))
        if f"{prefix}success/rate" in metrics:
            share = _format_share(metrics, f"{prefix}success/count", total)
            found.append((f"{name}success", f"{metrics[f'{prefix}success/rate']:.1%}{share}"))
    found += [
        (f"val {key[4:]}", f"{metrics[key]:.1%}{_format_share(metrics, f'{key}_tasks', 'val/tasks')}")
        for key in metrics
        if key.startswith("val/pass@") and not key.endswith("_tasks")
    ]
    # With one pass, or the same number of each task, it is the success.
    if ("val pass@1", dict(found).get("val success")) in found:
        found.remove(("val pass@1", dict(found)["val success"]))
    plain = {"kl/mean": ("kl", ".4f"), "loss/policy": ("loss", ".4f"), "tokens/per_s": ("tokens/s", ",.0f")}
    found += [(name, format(metrics[key], style)) for key, (name, style) in plain.items() if key in metrics]
    if "time/step_s" in metrics:
        found.append(("time", f"{metrics['time/step_s']:.1f} s"))
    return found


def _format_share(metrics: Mapping[str, float], count: str, total: str) -> str:
    """Return of how many a mean is, as ` (5 of 64)`; nothing if it is of all."""
    some, every = metrics.get(count), metrics.get(total)
    return "" if some is None or every is None or some >= every else f" ({some:,.0f} of {every:,.0f})"


def format_waterfall(metrics: Mapping[str, float], *, brief: bool = False) -> str:
    """Return how calls became tokens with signal, and what was lost on the way; if `brief`, how episodes did."""
    left_out = ("calls", "samples") if brief else ()
    stages = [(name, metrics[key]) for name, key in _WATERFALL if key in metrics and name not in left_out]
    text = " → ".join(f"{value:,.0f} {name.removesuffix('s') if value == 1 else name}" for name, value in stages)
    notes = []
    for name, prefix in _WATERFALL_NOTES:
        found = {key.removeprefix(prefix): value for key, value in metrics.items() if key.startswith(prefix) and value}
        counts = [f"{reason} {value:,.0f}" for reason, value in found.items()]
        notes += [f"{name}: {', '.join(counts)}"] if counts else []
    return f"{text} ({'; '.join(notes)})" if notes else text


def format_row(step: int, metrics: Mapping[str, float]) -> tuple[str, dict[str, str]]:
    """Return the label and the figures of a row: steps and validations share their columns, so that they fit 80 characters."""
    return format_label(step, metrics), {name.removeprefix("val "): text for name, text in format_figures(metrics)}


def order_columns(names: Sequence[str]) -> list[str]:
    """Return the names, each once, in the order of `COLUMNS`; others come last."""
    places = {name: place for place, name in enumerate(COLUMNS)}

    def place_of(name: str) -> int:
        return places.get("pass@" if name.startswith("pass@") else name, len(COLUMNS))

    return sorted(dict.fromkeys(names), key=place_of)


def thin_rows(rows: Sequence[Row], most: int = MOST_ROWS) -> list[Row]:
    """Return about `most` rows: all validations, the first and the last step, and steps at even distances between them."""
    steps = [place for place, row in enumerate(rows) if not _is_validation(row)]
    room = max(most - (len(rows) - len(steps)), 2)
    every = max(1, -(-(len(steps) - 1) // max(room - 1, 1)))
    kept = {*steps[::every], *steps[-1:]}
    return [row for place, row in enumerate(rows) if place in kept or _is_validation(row)]


def _is_validation(row: Row) -> bool:
    return "reward/mean" not in row[1] and any(name.startswith("val/") for name in row[1])
