"""Which episodes of a report are sent."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from attrs import frozen

from astuner.contract.schema import Episode, Group, Task


@frozen(kw_only=True)
class ChosenEpisode:
    """An episode, and the group of its siblings."""

    group: str
    """`Group.key`."""
    episode: Episode


def choose_episodes(groups: Sequence[Group], *, share: float, most: int) -> list[ChosenEpisode]:
    """Return the episodes of a share of the tasks, at most `most`.

    A task is chosen with all its episodes, and the same ones in every step, so that siblings and epochs can be compared.
    """
    ranked = sorted((_rank(group.task), place) for place, group in enumerate(groups))
    chosen: dict[int, list[ChosenEpisode]] = {}
    left = most
    for rank, place in ranked:
        if rank >= share or left <= 0:
            break
        group = groups[place]
        chosen[place] = [ChosenEpisode(group=group.key, episode=episode) for episode in group.episodes[:left]]
        left -= len(chosen[place])
    return [one for place in sorted(chosen) for one in chosen[place]]


def _rank(task: Task) -> float:
    """Return a number from 0 to below 1 that depends only on the task."""
    text = task.task_id or task.main_query
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=6).digest()) / 2**48
