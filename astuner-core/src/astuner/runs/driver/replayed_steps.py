"""The times of steps that a resumed run repeats from stored episodes, without playing them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import evolve, frozen

from astuner.contract.errors import FailureBudgetExceeded
from astuner.contract.schema import StepReport
from astuner.runs.store.episode_store import EpisodeFiles

ROLLOUT_TIMES = ("time/rollout_s", "time/engine_s", "tokens/per_s")
"""What is measured while episodes are played."""


@frozen(kw_only=True)
class ReplayedSteps:
    """Puts the times of the attempt that played a step into the report of its repetition."""

    store: EpisodeFiles
    times: Mapping[int, Mapping[str, float]]
    """By step, the times that the earlier attempt logged."""

    def correct(self, report: StepReport) -> StepReport:
        """Return a report with `time/episodes_replayed` and truthful times; as it is when every episode was played now.

        Of a step that was finished before, the times are those of then. If some episodes are new, times that were measured
        while episodes were played are left out.
        """
        episodes = [episode.id for group in report.groups for episode in group.played]
        replayed = sum(map(self.store.is_replayed, episodes))
        if not replayed:
            return report
        metrics = {name: value for name, value in report.metrics.items() if name not in ROLLOUT_TIMES}
        if replayed == len(episodes):
            metrics |= self.times.get(report.step, {})
        return evolve(report, metrics={**metrics, "time/episodes_replayed": float(replayed)})


def read_step_times(path: Path, after: int) -> dict[int, dict[str, float]]:
    """Return the times of the later training steps in a file of metrics, which may not exist."""
    times_by_step: dict[int, dict[str, float]] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue  # cut short by a crash; the logger reports any other damage
        if not isinstance(row, dict) or row.get("kind") != "train" or not isinstance(row.get("step"), int):
            continue
        if row["step"] > after:
            times = {name: value for name, value in row.items() if name.startswith("time/") or name in ROLLOUT_TIMES}
            times_by_step[row["step"]] = {name: value for name, value in times.items() if isinstance(value, int | float)}
    return times_by_step


@contextmanager
def forget_lost_episodes(store: EpisodeFiles) -> Iterator[None]:
    """Let a resumed run play the episodes again that have ended this one through `rollout.failure_budget`.

    Otherwise it would recall them, and end in the same way however the agent was mended. Episodes that failed in a step that the
    budget allowed stay as they are: the model may have caused it, and other random numbers would replace them by luckier ones.
    """
    try:
        yield
    except FailureBudgetExceeded as error:
        store.forget(error.split, error.lost, error.rejudged)
        raise
