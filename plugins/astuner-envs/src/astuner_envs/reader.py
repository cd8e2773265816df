"""The reader `environment_tasks`: the tasks that an installed environment lists, to be played in process."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from attrs import field, frozen
from attrs.validators import ge, min_len, optional

from astuner.contract.errors import ConfigError, DataError, Problem
from astuner.contract.protocols import RunInfo
from astuner.contract.schema import Split, Task
from astuner.settings.plugins.catalog import Catalog
from astuner.settings.plugins.drivers import load
from astuner.settings.plugins.options import build_options
from astuner_envs.listing import ListsTasks

UNNAMED = "name the environment here, whose tasks the reader `environment_tasks` reads."


class EnvironmentTasksReader:
    """Reads the tasks from the environment's class, with its options in `environment.NAME`, which core reads too."""

    @frozen(kw_only=True)
    class Options:
        """Options of the reader `environment_tasks`."""

        environment: str | None = field(default=None, validator=optional(min_len(1)))
        """The environment's name, as in `astuner env list`; `environment.environment_type` when not given."""
        limit: int | None = field(default=None, validator=optional(ge(1)))
        """Only the first `limit` tasks of each split."""

    def __init__(self, options: Options, run_info: RunInfo) -> None:
        self._limit = options.limit
        key = "astuner.task_reader.environment_tasks.environment"
        name = options.environment or run_info.config.environment.environment_type
        if name in ("auto", "no_env"):
            raise ConfigError([Problem(key="astuner.environment.environment_type", message=UNNAMED)])
        catalog = Catalog.discover(kinds=("environment",))
        candidate = catalog.find("environment", name, config_dir=run_info.config_dir, key=key)
        target = load(candidate)
        if not isinstance(target, ListsTasks):
            raise DataError(
                f"{key}: {candidate.blame} lists no tasks (it has no `list_tasks`): read them from a file with "
                "`task_reader.type: dataset_file`, and name the environment in their `env_type`"
            )
        given: Mapping[str, Any] = run_info.config.environment.get_options(candidate.name)
        self._name, self._world = name, target
        self._given = build_options(target, given, key=f"astuner.environment.{candidate.name}")

    @classmethod
    def from_run(cls, options: Options, run_info: RunInfo) -> EnvironmentTasksReader:
        """Make the reader of a run."""
        return cls(options, run_info)

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split, in the environment's order."""
        for count, task in enumerate(self._world.list_tasks(self._given, split)):
            if self._limit is not None and count >= self._limit:
                return
            yield Task(task.main_query, task.init_messages, task.task_id, self._name, task.metadata)
