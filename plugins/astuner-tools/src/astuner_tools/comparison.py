"""How runs differ: in their configuration, their curves, and in which tasks they solve."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from attrs import asdict, frozen

from astuner.contract.schema import Split
from astuner.runs.inspection.run import Run
from astuner.runs.store.metric_rows import read_curve
from astuner.settings.config.trees import flatten
from astuner_tools.run_summary import REWARD, VALIDATION, Summary, summarise
from astuner_tools.task_scores import Measure, TaskScore, choose_measure, choose_split, score_tasks

CURVES = (REWARD, VALIDATION)
"""The metrics that are compared without other wishes."""

OWN_KEYS = ("experiment_name", "experiment_dir")
"""Keys that no two runs share."""

Point = tuple[int, float]


@frozen(kw_only=True)
class ConfigDifference:
    """A key with different values."""

    key: str
    values: Sequence[Any]
    """By run; None where it is not set."""


@frozen(kw_only=True)
class TaskChange:
    """A task with different scores."""

    task: str
    scores: Sequence[float]
    """By run, at the last time that it played the task."""

    @property
    def change(self) -> float:
        """How much the last run scores above the first."""
        return self.scores[-1] - self.scores[0]


@frozen(kw_only=True)
class Comparison:
    """Some runs, the first of which is what the others are compared with."""

    runs: Sequence[Summary]
    configuration: Sequence[ConfigDifference]
    curves: Mapping[str, Sequence[Sequence[Point]]]
    """By metric and run."""
    split: Split
    """Whose tasks are compared."""
    measure: Measure
    """What the scores of the tasks are."""
    tasks: Sequence[TaskChange]
    """Those that changed, from the largest loss to the largest gain."""
    same_tasks: int
    """Tasks with equal scores in all runs."""
    apart_tasks: int
    """Tasks that only some of the runs have a score of; they are not compared."""

    def count(self, what: Literal["better", "worse"]) -> int:
        """Return how many tasks the last run does better or worse than the first."""
        return sum(change.change > 0 if what == "better" else change.change < 0 for change in self.tasks)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def compare_runs(
    runs: Sequence[Run],
    *,
    metrics: Sequence[str] = CURVES,
    split: Split | None = None,
    score: Callable[[Run, Split], Mapping[str, TaskScore]] = score_tasks,
) -> Comparison:
    """Compare runs of any state; their tasks by the last time that each was played.

    `score` returns the scores of a run's tasks; the default reads its whole store of episodes.
    """
    rows = [run.read_rows() for run in runs]
    chosen = split or choose_split(runs)
    scores = [score(run, chosen) for run in runs]
    measure = choose_measure(scores)
    changes, apart = _compare_tasks([{task: score.read(measure) for task, score in found.items()} for found in scores])
    changed = sorted((one for one in changes if len(set(one.scores)) > 1), key=lambda one: (one.change, one.task))
    return Comparison(
        runs=[summarise(run) for run in runs],
        configuration=_compare_configs(runs),
        curves={name: [read_curve(found, name) for found in rows] for name in metrics},
        split=chosen,
        measure=measure,
        tasks=changed,
        same_tasks=len(changes) - len(changed),
        apart_tasks=apart,
    )


def _compare_configs(runs: Sequence[Run]) -> list[ConfigDifference]:
    found = [_flatten_config(run) for run in runs]
    keys = dict.fromkeys(key for one in found for key in one)
    differing = (ConfigDifference(key=key, values=[one.get(key) for one in found]) for key in keys if key not in OWN_KEYS)
    return [one for one in differing if any(value != one.values[0] for value in one.values)]


def _flatten_config(run: Run) -> dict[str, Any]:
    """Return the values by the keys that `--set` takes: those of the section `astuner` without its name."""
    tree = run.read_config() or {}
    own = tree.get("astuner")
    others = {root: section for root, section in tree.items() if root != "astuner"}
    return flatten(own if isinstance(own, Mapping) else {}) | flatten(others)


def _compare_tasks(scores: Sequence[Mapping[str, float | None]]) -> tuple[list[TaskChange], int]:
    """Return the tasks that all runs have a score of, and how many only some have."""
    tasks = dict.fromkeys(task for found in scores for task in found)
    rows = [(task, [found.get(task) for found in scores]) for task in tasks]
    shared = [TaskChange(task=task, scores=[one for one in row if one is not None]) for task, row in rows if None not in row]
    return shared, len(rows) - len(shared)
