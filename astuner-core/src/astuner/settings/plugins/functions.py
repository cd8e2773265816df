"""Functions that other packages offer."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from typing import Any

from astuner.contract.errors import UsageError
from astuner.settings.plugins.kinds import GROUPS
from astuner.shared.install_hints import command_for


def load_function(name: str, purpose: str) -> Callable[..., Any]:
    """Return a function of an installed package; raises `UsageError`, which says what is missing for the purpose."""
    function = find_function(name)
    if function is None:
        raise UsageError(f"{purpose} is not installed: {command_for('function', name)}")
    return function


def find_function(name: str) -> Callable[..., Any] | None:
    """Return a function of an installed package; None if no package offers it."""
    entry = next(iter(entry_points(group=str(GROUPS["function"]), name=name)), None)
    return None if entry is None else entry.load()
