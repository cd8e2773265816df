"""Durations as people read them."""

from __future__ import annotations


def format_seconds(seconds: float) -> str:
    """Return a duration as `42 s`, `3 min 5 s` or `2 h 7 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
