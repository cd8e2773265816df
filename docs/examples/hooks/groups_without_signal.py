"""Listens: keeps the tasks whose siblings all got the same reward, since they teach nothing."""

from __future__ import annotations

from astuner import hookimpl
from astuner.contract.schema import Group


class GroupsWithoutSignal:
    def __init__(self) -> None:
        self.tasks: set[str] = set()

    @hookimpl
    def astuner_group_judged(self, group: Group) -> None:
        if group.split == "train" and len({episode.reward for episode in group.episodes}) == 1:
            self.tasks.add(group.task.task_id)
