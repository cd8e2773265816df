"""The judge that asks the episode's environment."""

from __future__ import annotations

from ajet.task_judge.base_judge import BaseJudge, WorkflowOutput, WorkflowTask

SCORE_WEIGHT, SUCCESS_BONUS = 0.5, 1.0


class EnvServiceJudge(BaseJudge):
    """Half the environment's score, and 1 more for a success, which is a score of at least 1."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        """Return the reward for the score that the environment gave before it was closed."""
        if workflow_task.gym_env is None:
            raise ValueError(
                f"task '{workflow_task.task_id}' was played in no environment, so there is no score: use another judge"
            )
        score = float(workflow_task.gym_env.evaluate(workflow_task.episode_uuid, params={"sparse": False}))
        is_success = score >= 1
        return SCORE_WEIGHT * score + SUCCESS_BONUS * is_success, is_success
