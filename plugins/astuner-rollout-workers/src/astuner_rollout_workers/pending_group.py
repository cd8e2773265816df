"""A group that is being played, and its finished episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from attrs import define, evolve, field

from astuner.contract.schema import Episode, Group, Task, Unjudged, Verdict
from astuner.episodes.rollout.runner import Round, make_episode_id


@define(eq=False, kw_only=True)
class PendingGroup:
    """A group that the pool has to return."""

    task: Task
    round: Round
    number: int = 0
    """Of the attempt under way."""
    losses: int = field(default=0, init=False)
    """How many workers have ended while they played it."""
    done: asyncio.Future[Group] = field(factory=lambda: asyncio.get_running_loop().create_future(), init=False)
    _episodes: dict[str, Episode] = field(factory=dict, init=False)

    @property
    def identities(self) -> list[str]:
        """The ids of its episodes, in order."""
        round_ = self.round
        return [make_episode_id(round_.split, round_.step, self.task.task_id, repeat) for repeat in round_.places]

    @property
    def known(self) -> list[Episode]:
        """The finished episodes."""
        return list(self._episodes.values())

    @property
    def missing(self) -> int:
        """How many episodes are not finished."""
        return len(self.round.places) - len(self._episodes)

    def add(self, episode: Episode) -> bool:
        """Take a finished episode; False if it was finished before."""
        is_new = episode.id not in self._episodes
        self._episodes.setdefault(episode.id, episode)
        return is_new

    def is_judged(self) -> bool:
        """Whether nothing is left to be done."""
        return not self.missing and all(e.verdict is not None for e in self._episodes.values() if e.completed)

    def build(self, verdicts: Mapping[str, Verdict | Unjudged]) -> Group:
        """Return the group with these verdicts; all its episodes are finished."""
        finished = (self._episodes[identity] for identity in self.identities)
        blank = Group(task=self.task, step=self.round.step, split=self.round.split, episodes=())
        return blank.with_played(evolve(episode, verdict=verdicts.get(episode.id, episode.verdict)) for episode in finished)
