"""The judge `env_service`: the score from the episode's own environment, while it lives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from astuner.contract.errors import DataError
from astuner.contract.protocols import EnvironmentTraits, Judge, JudgeTraits, read_traits
from astuner.contract.schema import Episode, Group, Unjudged, Verdict

SCORE = "score"


def _check_finite(_: Any, attribute: Any, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{attribute.name} is a finite number, not {value!r}")


class EnvServiceJudge(Judge):
    """Asks the environment for its score when the episode is over, and turns it into the reward by its options' weights.

    Works with every environment, in a server or not. An episode whose environment gave no score stays unjudged.
    """

    traits = JudgeTraits(compares_siblings=False, asks_service=True)

    @frozen(kw_only=True)
    class Options:
        """Options of the judge `env_service`. By default the reward is the score itself."""

        sparse: bool = False
        """Ask only for right or wrong, if the environment can give it."""
        score_weight: float = field(default=1.0, validator=_check_finite)
        """Factor of the score."""
        success_threshold: float = field(default=1.0, validator=_check_finite)
        """Score from which an episode is a success."""
        success_bonus: float = field(default=0.0, validator=_check_finite)
        """Added to the reward of a success."""
        failure_penalty: float = field(default=0.0, validator=_check_finite)
        """Subtracted from the reward of any other episode."""

    def __init__(self, options: Options | None = None) -> None:
        self._options = options or self.Options()

    async def observe(self, episode: Episode, environment: Any) -> Mapping[str, Any]:
        """Return the environment's score."""
        if environment is None:
            raise DataError(
                f"judge 'env_service': task '{episode.task.task_id}' was played in no environment (env_type "
                f"'{episode.task.env_type}'), so there is no score: use another judge, or name an environment"
            )
        if read_traits(environment, EnvironmentTraits).has_sparse_score:
            return {SCORE: float(await environment.evaluate(sparse=self._options.sparse))}
        if self._options.sparse:
            raise DataError(
                "task_judge.env_service.sparse: the environment has one score only: set it to false, or to a threshold of yours "
                "by success_threshold, with score_weight 0 and success_bonus 1"
            )
        return {SCORE: float(await environment.evaluate())}

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        """Return the verdicts on the observed scores."""
        return [self._verdict(episode) for episode in group.episodes if episode.completed]

    def _verdict(self, episode: Episode) -> Verdict | Unjudged:
        score = episode.observations.get(SCORE)
        if isinstance(score, bool) or not isinstance(score, int | float) or not math.isfinite(score):
            return Unjudged(reason="no_score", detail=f"judge 'env_service': the environment gave {score!r}, and no score")
        options = self._options
        is_success = score >= options.success_threshold
        reward = options.score_weight * score + (options.success_bonus if is_success else -options.failure_penalty)
        return Verdict(reward, is_success, components={SCORE: float(score)})
