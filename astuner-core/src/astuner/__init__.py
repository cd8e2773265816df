"""AgentScope Tuner: tunes the weights behind an agent by reinforcement learning."""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from astuner.moved_modules import MovedModules

if TYPE_CHECKING:
    from astuner.breakpoints import breakpoint  # noqa: A004 - it is read as `astuner.breakpoint`
    from astuner.contract.errors import ServiceUnavailable
    from astuner.contract.hookspecs import hookimpl
    from astuner.contract.protocols import Judge, Tuner, Workflow
    from astuner.contract.schema import Task, Verdict, WorkflowOutput, WorkflowTask
    from astuner.runs.inspection.run import Run
    from astuner.runs.launching import evaluate, replay, run

_HOMES = {
    "breakpoints": "breakpoint",
    "contract.errors": "ServiceUnavailable",
    "contract.hookspecs": "hookimpl",
    "contract.protocols": "Judge Tuner Workflow",
    "contract.schema": "Task Verdict WorkflowOutput WorkflowTask",
    "runs.inspection.run": "Run",
    "runs.launching": "evaluate replay run",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
"""Where each name is defined: imported on first use, so that the command line starts without them."""

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
        """Import a public name on its first use; for a name of the releases before 0.1, say where it went."""
        if name in _MODULES:
            value = globals()[name] = getattr(import_module(f"astuner.{_MODULES[name]}"), name)
            return value
        if name in ("ModelTuner", "AstunerJob"):
            raise ImportError(
                f"astuner.{name} is a name of releases before 0.1: write `from astune import ...` for all names of such code "
                "(docs/coming_from/agentjet.md), or astuner.Tuner and astuner.run",
                name=__name__,
            )
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")

    def __dir__() -> list[str]:
        """Return the names of the module, those that are not imported yet too."""
        return sorted({*globals(), *__all__})
