"""AgentScope Tuner: tunes the weights behind an agent by reinforcement learning."""

from astuner.breakpoints import breakpoint  # noqa: A004 - it is read as `astuner.breakpoint`
from astuner.errors import ServiceUnavailable
from astuner.hookspecs import hookimpl
from astuner.inspection.run import Run
from astuner.launching import evaluate, replay, run
from astuner.protocols import Judge, Tuner, Workflow
from astuner.schema import Task, Verdict, WorkflowOutput, WorkflowTask

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
