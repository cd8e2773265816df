"""The workflow of a run: the one that is named, or the one that a reader brings for its tasks."""

from __future__ import annotations

from astuner.contract.protocols import ReaderTraits, read_traits
from astuner.settings.config.agent import is_command
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.drivers import load


def choose_workflow(named: str | None, reader: Component) -> str | None:
    """Return what to play; None if the environment leads."""
    brought = read_traits(load(reader.candidate), ReaderTraits).command_workflow if is_command(named) else None
    return brought or named
