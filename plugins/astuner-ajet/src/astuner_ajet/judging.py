"""Judging with a judge of AgentJet in a run of astuner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from attrs import frozen

from astuner.contract.schema import Episode, Group, Unjudged, Verdict, WorkflowOutput, WorkflowTask
from astuner.episodes.judging.simple_judges import EpisodeJudge
from astuner_ajet.tasks import to_ajet_output, to_ajet_task

if TYPE_CHECKING:
    from ajet.task_judge.base_judge import BaseJudge

SCORE = "score"


@frozen
class ClosedEnvironment:
    """What is left of an environment when judges are asked: the score that it gave at the end of the episode."""

    score: float

    def evaluate(self, episode_uuid: str | None = None, params: Mapping[str, Any] | None = None) -> float:
        """Return that score."""
        return self.score


class AjetJudge(EpisodeJudge):
    """Gives a judge its task and output in its own form, and the environment's score as `gym_env.evaluate(…)`."""

    def __init__(self, judge: BaseJudge, blame: str) -> None:
        """`blame` begins the message of a failure."""
        super().__init__(self._judge_one, blame=blame, owner=judge)
        self._inner = judge
        self._scores: dict[str, Any] = {}

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Return the environment's score, before it is closed."""
        return {} if environment is None else {SCORE: float(await environment.evaluate())}

    async def judge_within(self, group: Group, timeout_s: float | None) -> Sequence[Verdict | Unjudged]:
        """Judge every completed episode of a group."""
        scores = {episode.id: episode.observations.get(SCORE) for episode in group.episodes}
        self._scores |= scores
        try:
            return await super().judge_within(group, timeout_s)
        finally:
            for name in scores:
                self._scores.pop(name, None)

    def _judge_one(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        score = self._scores.get(workflow_task.episode_id)
        environment = None if score is None else ClosedEnvironment(score)
        task = to_ajet_task(workflow_task, tokenizer=None, gym_env=environment)
        answer = self._inner.compute_reward(task, to_ajet_output(workflow_output))
        return tuple(answer) if isinstance(answer, list) else answer
