"""Listens: keeps the tasks of which all siblings got the same reward, so that nothing could be learnt from them."""

from __future__ import annotations

from astuner import hookimpl
from astuner.schema import Group


class GroupsWithoutSignal:
    def __init__(self) -> None:
        self.tasks: set[str] = set()

    @hookimpl
    def astuner_group_judged(self, group: Group) -> None:
        if group.split == "train" and len({episode.reward for episode in group.episodes}) == 1:
            self.tasks.add(group.task.task_id)
