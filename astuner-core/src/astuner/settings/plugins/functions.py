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
    for entry in entry_points(group=str(GROUPS["function"]), name=name):
        function: Callable[..., Any] = entry.load()
        return function
    raise UsageError(f"{purpose} is not installed: {command_for('function', name)}")
