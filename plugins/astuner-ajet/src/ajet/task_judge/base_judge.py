"""The base class of judges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ajet.schema.task import WorkflowOutput, WorkflowTask

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

__all__ = ["BaseJudge", "WorkflowOutput", "WorkflowTask"]


class BaseJudge:
    """Judges each episode on its own. It is made once for a run, with the configuration."""

    def __init__(self, config: Any) -> None:
        """Keep the configuration: `config.ajet.task_judge.alien_llm_model`."""
        self.config = config

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        """Return the reward and whether the episode is a success."""
        raise NotImplementedError

    @classmethod
    def from_run(cls, options: None, run_info: RunInfo | None) -> Any:
        """Return what judges in a run of astuner."""
        from astuner_ajet.judging import AjetJudge
        from astuner_ajet.settings import read_settings

        return AjetJudge(cls(read_settings(run_info)), f"judge {cls.__name__}")
