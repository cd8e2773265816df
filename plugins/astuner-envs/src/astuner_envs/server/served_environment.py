"""A served environment, loaded: made for an instance exactly as core makes it for an episode."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from astuner.contract.errors import DataError
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Task, WorkflowTask
from astuner.episodes.rollout.environments import GuardedEnvironment, check_shape, choose_environment
from astuner.settings.config.model import Config
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.component import Component
from astuner.settings.plugins.drivers import bind_environment, load
from astuner_envs.listing import ListsTasks

KEY = "astuner env serve: --env"


@frozen(kw_only=True)
class World:
    """An environment and its options."""

    component: Component
    target: Any
    """Its class."""
    config_dir: Path

    @property
    def lists_tasks(self) -> bool:
        """Whether it lists its own tasks."""
        return isinstance(self.target, ListsTasks)

    def warm_up(self) -> None:
        """Call its classmethod `warm_up()`, if any, to make heavy imports once for all instances."""
        prepare = getattr(self.target, "warm_up", None)
        if callable(prepare):
            prepare()

    def task_ids(self, split: str) -> list[str]:
        """Return the ids of a split."""
        return [task.task_id for task in self.target.list_tasks(self.component.options, split)]

    def environment(self, task: Task, instance_id: str) -> GuardedEnvironment:
        """Make the environment of one instance."""
        workflow_task = WorkflowTask(task, task_id=task.task_id, env_type=task.env_type, episode_id=instance_id)
        candidate = self.component.candidate
        make = bind_environment(candidate, self.target, self.component.options, self._run_info())
        return GuardedEnvironment(make(workflow_task), candidate.blame)

    def _run_info(self) -> RunInfo:
        # An instance has no run; environments that read its configuration get the defaults.
        return RunInfo(
            project_name="env",
            experiment_name=self.component.candidate.name,
            backbone="none",
            directory=Path(tempfile.gettempdir()),
            config_dir=self.config_dir,
            seed=0,
            config=Config(),
        )


def load_world(name: str, options: Mapping[str, Any], config_dir: Path) -> World:
    """Find and load an environment; raises an `AstunerError` if it cannot be used with these options."""
    catalog = Catalog.discover(kinds=("environment",))
    candidate = catalog.find("environment", name, config_dir=config_dir, key=KEY)
    component = choose_environment(candidate, options)
    target = load(candidate)
    check_shape(candidate, target, KEY)
    return World(component=component, target=target, config_dir=config_dir)


def find_task_error(error: BaseException | None) -> DataError | None:
    """Return the `DataError` that an environment raised for a task that does not exist; None for any other failure."""
    while error is not None and not isinstance(error, DataError):
        error = error.__cause__
    return error
