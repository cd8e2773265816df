"""Environment variables and limits of this process."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def export_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables for this process and those it starts while the block lasts; then restore the previous values."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def set_limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Set a limit (`resource.RLIMIT_…`) of this process, which runs code written by a model, unless a stricter one is set."""
    _, most = resource.getrlimit(kind)
    wanted = (soft, soft if hard is None else hard)
    resource.setrlimit(kind, wanted if most == resource.RLIM_INFINITY else (min(wanted[0], most), min(wanted[1], most)))
