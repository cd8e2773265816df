"""AgentScope Tuner: tunes the weights behind an agent by reinforcement learning."""

import sys
from typing import TYPE_CHECKING, Any

from astuner.breakpoints import breakpoint  # noqa: A004 - it is read as `astuner.breakpoint`
from astuner.contract.errors import ServiceUnavailable
from astuner.contract.hookspecs import hookimpl
from astuner.contract.protocols import Judge, Tuner, Workflow
from astuner.contract.schema import Task, Verdict, WorkflowOutput, WorkflowTask
from astuner.moved_modules import MovedModules
from astuner.runs.inspection.run import Run
from astuner.runs.launching import evaluate, replay, run

sys.meta_path.append(MovedModules())

__all__ = [
    "Judge",
    "Run",
    "ServiceUnavailable",
    "Task",
    "Tuner",
    "Verdict",
    "Workflow",
    "WorkflowOutput",
    "WorkflowTask",
    "breakpoint",
    "evaluate",
    "hookimpl",
    "replay",
    "run",
]

# Hidden from type checkers, which would otherwise accept any name.
if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Answer an import of a name of the releases before 0.1."""
        if name in ("ModelTuner", "AstunerJob"):
            raise ImportError(
                f"astuner.{name} is a name of releases before 0.1: write `from astune import ...` for all names of such code "
                "(docs/coming_from/agentjet.md), or astuner.Tuner and astuner.run",
                name=__name__,
            )
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
