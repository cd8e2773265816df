"""The names that AgentJet projects import, as `from ajet import AjetTuner, Workflow, WorkflowOutput, WorkflowTask`."""

from ajet.copilot.job import AgentJetJob
from ajet.schema.task import WorkflowOutput, WorkflowTask
from ajet.tuner import AjetTuner
from ajet.utils.vsdb import bp
from ajet.workflow import Workflow

__all__ = ["AgentJetJob", "AjetTuner", "Workflow", "WorkflowOutput", "WorkflowTask", "bp"]
