"""The older name of the package `ajet`: `astune.workflow` and all other modules below it are those of `ajet`."""

from ajet import AgentJetJob, AjetTuner, AstunerJob, ModelTuner, Workflow, WorkflowOutput, WorkflowTask, bp

__all__ = ["AgentJetJob", "AjetTuner", "AstunerJob", "ModelTuner", "Workflow", "WorkflowOutput", "WorkflowTask", "bp"]
