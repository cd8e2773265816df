"""The reader `env_service`: the tasks of a server of environments."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from astuner.contract.errors import DataError
from astuner.contract.protocols import ReaderTraits
from astuner.contract.schema import Split, Task
from astuner.settings.plugins.catalog import Catalog
from astuner.shared.clients import run_blocking
from astuner_env_service.client import EnvServiceClient, EnvServiceFailed, Patience
from astuner_env_service.section import KEY, READER, EnvServiceOptions

PATIENCE = Patience(timeout_s=30.0, max_retries=4)
"""Short: a new server may need a moment, but a missing one is reported soon."""


class EnvServiceReader:
    """Ids come from the server, once per split; the rest of a task is requested when an episode starts."""

    traits = ReaderTraits(prefers_actions=True)

    Options = EnvServiceOptions

    def __init__(self, options: EnvServiceOptions | None = None) -> None:
        self._options = options or EnvServiceOptions()
        self._ids: dict[str, tuple[str, ...]] = {}

    @classmethod
    def prefer_actions(cls, options: EnvServiceOptions) -> Literal["code", "text", "box"]:
        """Return what the section says."""
        return options.env_action_preference

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split, in the server's order; nothing if it is null. Raises `DataError`."""
        options = self._options
        name = options.training_split if split == "train" else options.validation_split
        if name is None:
            return
        if name not in self._ids:
            self._ids[name] = self._ask(name, "training_split" if split == "train" else "validation_split")
        told = {
            "env_type": options.env_type,
            "split": name,
            "env_action_preference": options.env_action_preference,
            "params": dict(options.params),
        }
        env_type = find_env_type(options.env_type)
        for task_id in self._ids[name][: options.limit]:
            yield Task(task_id=task_id, env_type=env_type, metadata={READER: told})

    def _ask(self, name: str, key: str) -> tuple[str, ...]:
        ids = run_blocking(self._task_ids(name))
        options = self._options
        if not ids:
            raise DataError(
                f"{KEY}.{key}: the service at {options.env_url} has no tasks of {options.env_type!r} in the split {name!r}: "
                "name another, or null"
            )
        if len(set(ids)) < len(ids):
            twice = next(task_id for number, task_id in enumerate(ids) if task_id in ids[:number])
            raise DataError(f"{KEY}.{key}: the service at {options.env_url} lists the task {twice!r} twice in the split {name!r}")
        return tuple(ids)

    async def _task_ids(self, name: str) -> list[str]:
        options = self._options
        client = EnvServiceClient(options.env_url, token=options.token(options.env_url), patience=PATIENCE)
        try:
            return await client.task_ids(options.env_type, name, options.params)
        except EnvServiceFailed as error:
            raise DataError(f"{KEY}: {error}. Is the service running, and env_url right?") from error
        finally:
            await client.close()


def find_env_type(name: str) -> str:
    """Return the `env_type` of the tasks: the server's, by which core finds the environment `env_service`.

    If an environment of that name is installed here too, core would play the tasks in it instead of the server; then they name
    the environment `env_service` itself.
    """
    installed = {candidate.name for candidate in Catalog.discover(kinds=("environment",)).candidates("environment")}
    return READER if name in installed else name
