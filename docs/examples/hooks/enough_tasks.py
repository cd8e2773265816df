"""Listens: warns when a split is so small that its rewards are mostly noise."""

from __future__ import annotations

import sys

from astuner import hookimpl


class EnoughTasks:
    @hookimpl
    def astuner_tasks_read(self, split: str, count: int) -> None:
        if 0 < count < 30:
            print(f"enough_tasks: {split} has {count} tasks, so its mean reward says little", file=sys.stderr)
