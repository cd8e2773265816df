"""What a process may take of the system, for those that run what a model wrote."""

from __future__ import annotations

import resource


def set_limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a limit (`resource.RLIMIT_…`) of this process, where there is not a stricter one: that cannot be raised."""
    _, most = resource.getrlimit(kind)
    wanted = (soft, soft if hard is None else hard)
    resource.setrlimit(kind, wanted if most == resource.RLIM_INFINITY else (min(wanted[0], most), min(wanted[1], most)))
