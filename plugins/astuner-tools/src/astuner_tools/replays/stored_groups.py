"""The groups of a run as it stored them, a few in memory at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from astuner.contract.errors import UsageError
from astuner.contract.schema import Group, Split
from astuner.runs.inspection.run import Run
from astuner.runs.store.episode_index import EpisodeIndex, IndexedEpisode


class StoredGroups:
    """The groups of a split, or of one of its steps: by step, in the order in which the first episode of each has finished."""

    def __init__(self, run: Run, split: Split, step: int | None = None) -> None:
        """Index them; raises `UsageError` if there are none."""
        self.run, self.split = run, split
        self.index: EpisodeIndex = run.index_episodes(split, step)
        self._members: dict[tuple[int, str], list[IndexedEpisode]] = {}
        for one in self.index:
            self._members.setdefault((one.step, one.task_id), []).append(one)
        if not self._members:
            steps = f"; there are those of steps {', '.join(map(str, sorted(self.index.steps)))}" if self.index.steps else ""
            which = "" if step is None else f" of step {step}"
            raise UsageError(f"{self.index.path}: no episodes{which} are stored{steps}, so there is nothing to score again")

    def __len__(self) -> int:
        """Return the number of groups."""
        return len(self._members)

    @property
    def most_in_a_step(self) -> int:
        """How many groups the run has judged at a time, at most."""
        return max(Counter(step for step, _ in self._members).values())

    def read(self) -> Iterator[Group]:
        """Yield the groups with their stored verdicts. What is damaged is left out, and reported by `self.index.lost`."""
        for (step, _), members in sorted(self._members.items(), key=lambda item: item[0][0]):
            found = [self.index.load(one) for one in sorted(members, key=lambda one: one.repeat)]
            episodes = [episode for episode in found if episode is not None]
            if episodes:
                yield Group(task=episodes[0].task, step=step, split=self.split, episodes=()).with_played(episodes)
