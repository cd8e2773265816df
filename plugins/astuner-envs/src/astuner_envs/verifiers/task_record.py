"""What a task of the reader `verifiers` carries for the workflow that plays it, in `metadata.verifiers`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from astuner.contract.errors import DataError
from astuner.contract.schema import Task

METADATA_KEY = "verifiers"


@frozen(kw_only=True)
class TaskRecord:
    """The environment's configuration and the row of its data; JSON values only."""

    environment: Mapping[str, Any]
    """The configuration of the environment, as `verifiers` writes it: its block `env`."""
    data: Mapping[str, Any]
    """The task's own data, as `verifiers` sends it to its servers."""
    success_reward: float | None = None
    """The reward from which an episode is a success; None if success has no meaning here."""

    def to_metadata(self) -> Mapping[str, Any]:
        """Return the metadata of the task."""
        return {METADATA_KEY: asdict(self)}


def read_record(task: Task) -> TaskRecord:
    """Return the record of a task. Raises `DataError` for a task of another reader."""
    found = task.metadata.get(METADATA_KEY)
    if not isinstance(found, Mapping) or not {"environment", "data"} <= found.keys():
        raise DataError(
            f"task '{task.task_id}' has no metadata.{METADATA_KEY}, from which VerifiersWorkflow plays it: read the tasks with "
            "task_reader.type: verifiers"
        )
    return TaskRecord(environment=found["environment"], data=found["data"], success_reward=found.get("success_reward"))
