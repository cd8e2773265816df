"""The judge: the village wins or loses as one."""

from __future__ import annotations

from astuner import WorkflowOutput, WorkflowTask


class VillageWins:
    """1 for the seer and the villagers if the wolf is out, also for those who were bitten or wrong."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward, and whether it counts as a success."""
        won = workflow_output.metadata["won"]
        return float(won), won
