"""The tasks of a served environment: its own list, or rows of files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from attrs import evolve

from astuner.contract.errors import UsageError
from astuner.contract.schema import Task
from astuner.shared.tabular import make_tasks, read_json_rows
from astuner_envs.listing import SPLITS
from astuner_envs.server.faults import BadRequest
from astuner_envs.server.instances import Instances
from astuner_envs.server.settings import ServedWorld

ALIASES: Mapping[str, str] = {"": "train", "training": "train", "dev": "validation", "val": "validation"}
"""What clients call the splits of environments that list their own tasks."""


class Tasks:
    """The tasks of one environment; lists are kept once made."""

    def __init__(self, number: int, world: ServedWorld) -> None:
        """Read the files, if any."""
        self._number, self._world = number, world
        self._rows = {split: _read(path) for split, path in world.task_files.items()}
        self._listed: dict[str, list[str]] = {}

    @property
    def splits(self) -> tuple[str, ...]:
        """The existing splits."""
        return tuple(self._rows) or SPLITS

    async def ids(self, split: str, instances: Instances) -> list[str]:
        """Return the ids of a split, in their order."""
        if self._rows:
            name = split if split in self._rows else ALIASES.get(split, split)
            if name not in self._rows:
                raise BadRequest(self._no_split(split, tuple(self._rows)))
            return list(self._rows[name])
        name = ALIASES.get(split, split)
        if name not in SPLITS:
            raise BadRequest(self._no_split(split, SPLITS))
        if name not in self._listed:
            self._listed[name] = await instances.ids(self._number, name)
        return self._listed[name]

    def task(self, task_id: str, params: Mapping[str, Any]) -> Task:
        """Return a task; further values from the client go into its metadata."""
        if not self._rows:
            return Task(task_id=task_id, env_type=self._world.name, metadata=params)
        found = next((rows[task_id] for rows in self._rows.values() if task_id in rows), None)
        if found is None:
            raise BadRequest(f"environment {self._world.name!r} has no task {task_id!r} in its files")
        return evolve(found, env_type=self._world.name, metadata={**params, **found.metadata})

    def _no_split(self, split: str, there: tuple[str, ...]) -> str:
        return f"environment {self._world.name!r} has no split {split!r}; there are {', '.join(there)}"


def _read(path: Path) -> dict[str, Task]:
    if not path.is_file():
        raise UsageError(f"astuner env serve: --tasks: there is no file {path}")
    return {task.task_id: task for task in make_tasks(partial(read_json_rows, path))}
