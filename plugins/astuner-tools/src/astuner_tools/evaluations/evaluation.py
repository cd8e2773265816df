"""What contestants scored on the same tasks: each of them, each against the first, and by source of the tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from attrs import asdict, frozen

from astuner.contract.schema import Group
from astuner.episodes.rollout.scores import compute_scores, knows_success
from astuner_tools.evaluations.statistics import (
    Figure,
    compute_sign_test,
    count_missing_tasks,
    estimate_mean,
    estimate_share,
)

Measure = Literal["success", "reward"]

OTHER = "other"
"""The source of tasks that name none, where others do."""


@frozen(kw_only=True)
class TaskScore:
    """What the episodes of a task scored."""

    source: str
    """`data_source` in the metadata of the task; empty without it."""
    episodes: int
    reward: float | None
    """The mean; a failure of the contestant without a reward counts as 0. None if no episode says anything about it."""
    success: float | None
    """The share; None if it is not known."""

    def read(self, measure: Measure) -> float | None:
        """Return one of the two."""
        return self.success if measure == "success" else self.reward


@frozen(kw_only=True)
class Cost:
    """What the pass of a contestant took."""

    calls: int
    prompt_tokens: int | None
    """Of all calls together, as an API bills them; None if nothing counted them."""
    generated_tokens: int | None
    seconds: float
    """Of the whole pass, loading included."""


@frozen(kw_only=True)
class PlayedContestant:
    """A contestant after its pass."""

    name: str
    source: str
    """The weights, or the model and the address of an API."""
    directory: Path
    """Where its episodes are."""
    metrics: Mapping[str, float]
    failed: int
    """Episodes that failed or were not judged."""
    cost: Cost
    tasks: Mapping[str, TaskScore]


@frozen(kw_only=True)
class Standing:
    """The figures of a contestant, over all tasks or those of one source."""

    contestant: str
    source: str | None
    """None is all tasks."""
    tasks: int
    episodes: int
    reward: Figure | None
    success: Figure | None


@frozen(kw_only=True)
class Difference:
    """A contestant against the first one, over the tasks that both have a score of."""

    contestant: str
    against: str
    source: str | None
    tasks: int
    reward: Figure | None
    success: Figure | None
    measure: Measure
    """What the fields below are about."""
    better: int
    """Tasks on which it scores higher."""
    worse: int
    p_value: float
    """Of the exact sign test; with one episode by task and success known, McNemar's."""
    decided: bool
    """Whether the interval excludes 0."""
    more_tasks: int | None
    """About how many more would decide, if the difference is as large as it looks; 0 if decided, None without a difference."""


@frozen(kw_only=True)
class Evaluation:
    """All of it."""

    settings: Mapping[str, Any]
    """What was the same for all."""
    contestants: Sequence[PlayedContestant]
    standings: Sequence[Standing]
    differences: Sequence[Difference]

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {**asdict(self, value_serializer=lambda _, __, value: str(value) if isinstance(value, Path) else value)}


def score_tasks(groups: Sequence[Group]) -> dict[str, TaskScore]:
    """Return the score of each task, by the rules of a run's validation metrics."""
    known = knows_success(episode for group in groups for episode in group.episodes)
    found: dict[str, TaskScore] = {}
    for group in groups:
        scores = compute_scores([group], known=known)
        found[group.task.task_id] = TaskScore(
            source=str(group.task.metadata.get("data_source", "")),
            episodes=int(scores.get("success/count", scores.get("reward/count", 0))),
            reward=scores.get("reward/mean"),
            success=scores.get("success/rate"),
        )
    return found


def evaluate_contestants(contestants: Sequence[PlayedContestant], settings: Mapping[str, Any], seed: int) -> Evaluation:
    """Return the figures of all; the same seed gives the same intervals."""
    sources = sorted({score.source for one in contestants for score in one.tasks.values()})
    parts: list[str | None] = [None, *(sources if len(sources) > 1 else ())]
    first, *others = contestants
    return Evaluation(
        settings=settings,
        contestants=contestants,
        standings=[_rate(one, source, seed) for source in parts for one in contestants],
        differences=[_compare(one, first, source, seed) for source in parts for one in others],
    )


def _rate(one: PlayedContestant, source: str | None, seed: int) -> Standing:
    tasks = _select(one, source)
    rewards = [score.reward for score in tasks.values() if score.reward is not None]
    decided = [(score.success, score.episodes) for score in tasks.values() if score.success is not None]
    return Standing(
        contestant=one.name,
        source=_name(source),
        tasks=len(tasks),
        episodes=sum(score.episodes for score in tasks.values()),
        reward=estimate_mean(rewards, seed) if rewards else None,
        success=estimate_share(*zip(*decided, strict=True)) if decided else None,
    )


def _compare(one: PlayedContestant, first: PlayedContestant, source: str | None, seed: int) -> Difference:
    ours, theirs = _select(one, source), _select(first, source)
    rewards = _subtract(ours, theirs, lambda score: score.reward)
    successes = _subtract(ours, theirs, lambda score: score.success)
    measure: Measure = "success" if successes else "reward"
    counted = successes or rewards
    figures = {"reward": estimate_mean(rewards, seed) if rewards else None}
    figures["success"] = estimate_mean(successes, seed) if successes else None
    figure = figures[measure]
    better, worse = sum(one > 0 for one in counted), sum(one < 0 for one in counted)
    decided = figure is not None and figure.excludes_zero
    return Difference(
        contestant=one.name,
        against=first.name,
        source=_name(source),
        tasks=len(counted),
        **figures,
        measure=measure,
        better=better,
        worse=worse,
        p_value=compute_sign_test(better, worse),
        decided=decided,
        more_tasks=0 if decided else count_missing_tasks(counted),
    )


def _select(one: PlayedContestant, source: str | None) -> dict[str, TaskScore]:
    return {task: score for task, score in one.tasks.items() if source in (None, score.source)}


def _subtract(
    ours: Mapping[str, TaskScore], theirs: Mapping[str, TaskScore], read: Callable[[TaskScore], float | None]
) -> list[float]:
    pairs = [(read(ours[task]), read(theirs[task])) for task in sorted(ours) if task in theirs]
    return [one - other for one, other in pairs if one is not None and other is not None]


def _name(source: str | None) -> str | None:
    return OTHER if source == "" else source
