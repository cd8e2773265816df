"""The names that AgentJet projects import, as `from ajet import AjetTuner, Workflow, WorkflowOutput, WorkflowTask`."""

from ajet.copilot.job import AgentJetJob, AstunerJob
from ajet.schema.task import WorkflowOutput, WorkflowTask
from ajet.tuner import AjetTuner, ModelTuner
from ajet.utils.vsdb import bp
from ajet.workflow import Workflow
from astuner_ajet.module_names import answer_imports

__all__ = ["AgentJetJob", "AjetTuner", "AstunerJob", "ModelTuner", "Workflow", "WorkflowOutput", "WorkflowTask", "bp"]

answer_imports()
