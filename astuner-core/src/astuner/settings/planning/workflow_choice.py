"""The workflow of a run: the one that is named, or the one that a reader brings for its tasks."""

from __future__ import annotations

from astuner.contract.protocols.optional import find_offer
from astuner.contract.protocols.program_workflow import BringsCommandWorkflow
from astuner.settings.config.agent import is_command
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.drivers import load


def choose_workflow(named: str | None, reader: Component) -> str | None:
    """Return what to play; None if the environment leads."""
    brings = find_offer(load(reader.candidate), BringsCommandWorkflow) if is_command(named) else None
    return named if brings is None else brings.command_workflow
