"""The base class of readers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

from ajet.schema.task import Task

if TYPE_CHECKING:
    import astuner
    from astuner.contract.protocols import RunInfo

__all__ = ["BaseTaskReader", "Task"]


class BaseTaskReader:
    """Reads all tasks of a split at once. Name yours by its place: `task_reader.type: ./reader.py->MyReader`."""

    def __init__(self, reader_config: Any) -> None:
        """Keep the section `task_reader`."""
        self.reader_config = reader_config

    def get_training_tasks(self) -> list[Task]:
        """Return the tasks to train on."""
        raise NotImplementedError

    def get_validation_tasks(self) -> list[Task]:
        """Return the tasks to validate on."""
        raise NotImplementedError

    @classmethod
    def from_run(cls, options: None, run_info: RunInfo | None) -> BaseTaskReader:
        """Make the reader of a run of astuner."""
        from astuner_ajet.settings import read_settings

        return cls(read_settings(run_info).ajet.task_reader)

    def read(self, split: Literal["train", "validation"]) -> Iterator[astuner.Task]:
        """Yield the tasks of a split, as a reader of astuner does."""
        from astuner_ajet.tasks import to_astuner_task

        tasks = self.get_training_tasks() if split == "train" else self.get_validation_tasks()
        return map(to_astuner_task, tasks)
