"""The workflows of task folders: `TaskFolderWorkflow`, which `astuner_agents:Command` stands for, and `Oracle`."""

from astuner_agents.task_folders.playing.oracle import Oracle
from astuner_agents.task_folders.playing.workflow import TaskFolderWorkflow

__all__ = ["Oracle", "TaskFolderWorkflow"]
