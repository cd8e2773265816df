"""Limits on a process's resources, for processes that run code written by a model."""

from __future__ import annotations

import resource


def set_limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a limit (`resource.RLIMIT_…`) of this process, unless a stricter one is set already."""
    _, most = resource.getrlimit(kind)
    wanted = (soft, soft if hard is None else hard)
    resource.setrlimit(kind, wanted if most == resource.RLIM_INFINITY else (min(wanted[0], most), min(wanted[1], most)))
