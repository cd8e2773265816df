"""AgentScope Tuner: tunes the weights behind an agent by reinforcement learning."""

from astuner.hookspecs import hookimpl
from astuner.protocols import Judge, Tuner, Workflow
from astuner.schema import Task, Verdict, WorkflowOutput, WorkflowTask

__all__ = ["Judge", "Task", "Tuner", "Verdict", "Workflow", "WorkflowOutput", "WorkflowTask", "hookimpl"]
