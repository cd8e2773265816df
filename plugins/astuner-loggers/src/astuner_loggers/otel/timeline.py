"""When the spans of an episode begin and end. Episodes and calls have durations, and no times of their own."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_S = 1e-6
"""When the first call begins: lists name a trace by its earliest span, which is to be the root."""


def place_calls(latencies_s: Sequence[float], duration_s: float) -> list[tuple[float, float]]:
    """Return when each call begins and ends, in seconds from the start of its episode.

    Calls follow each other, each for as long as it took. If together they took longer than the episode, some ran at the same
    time: then they begin earlier, in proportion, and overlap.
    """
    total = sum(latencies_s)
    pace = duration_s / total if total > duration_s else 1.0
    placed = []
    before = 0.0
    for latency in latencies_s:
        start = FIRST_S + before * pace
        placed.append((start, start + latency))
        before += latency
    return placed
