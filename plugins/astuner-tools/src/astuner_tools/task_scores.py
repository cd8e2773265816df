"""How well a run did each task the last time that it played it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from attrs import define

from astuner.contract.schema import GREEDY, Split
from astuner.runs.inspection.run import Run
from astuner.runs.store.episode_index import IndexedEpisode
from astuner.runs.store.episode_store import SPLITS

Measure = Literal["success", "reward"]


@define(eq=False)
class TaskScore:
    """The sums over the siblings of one step."""

    step: int
    successes: int = 0
    decided: int = 0
    """Siblings whose success is known."""
    reward: float = 0.0
    rewarded: int = 0

    def read(self, measure: Measure) -> float | None:
        """Return the share of successes, or the mean reward; None if nothing is known."""
        if measure == "success":
            return self.successes / self.decided if self.decided else None
        return self.reward / self.rewarded if self.rewarded else None


def choose_split(runs: Sequence[Run]) -> Split:
    """Return `validation` if all runs validated, since they play the same tasks there."""
    return "validation" if all(run.has_episodes("validation") for run in runs) else SPLITS[0]


def score_tasks(run: Run, split: Split) -> Mapping[str, TaskScore]:
    """Return the scores by task."""
    return add_up_scores(run.index_episodes(split))


def add_up_scores(index: Iterable[IndexedEpisode]) -> dict[str, TaskScore]:
    """Return the scores of each task at the last step at which it was played."""
    found: dict[str, TaskScore] = {}
    for one in (each for each in index if each.repeat != GREEDY):
        score = found.get(one.task_id)
        if score is None or one.step > score.step:
            score = found[one.task_id] = TaskScore(step=one.step)
        if one.step == score.step:
            score.decided += one.is_success is not None
            score.successes += one.is_success is True
            score.rewarded += one.reward is not None
            score.reward += one.reward or 0.0
    return found


def choose_measure(scores: Iterable[Mapping[str, TaskScore]]) -> Measure:
    """Return `success` if it is known of any task."""
    return "success" if any(score.decided for found in scores for score in found.values()) else "reward"
