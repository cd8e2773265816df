"""Which tasks an environment has: what a reader and a server need beyond core's protocol."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, runtime_checkable

from attrs import field, frozen
from attrs.validators import ge

from astuner.contract.errors import DataError
from astuner.contract.schema import Split, Task

T = TypeVar("T")

SPLITS: tuple[Split, ...] = ("train", "validation")

MOST_DRAWS = 20_000


@runtime_checkable
class ListsTasks(Protocol):
    """An environment class that lists its own tasks. An id is all that a server needs of a task."""

    @classmethod
    def list_tasks(cls, options: Any, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split, in the same order every time."""
        ...


@frozen(kw_only=True)
class NumberedTasks:
    """Options of an environment whose tasks are made from a seed and a number."""

    seed: int = 0
    """Of all tasks; another seed gives other tasks under the same ids."""
    training_tasks: int = field(default=1000, validator=ge(0))
    """Number of training tasks."""
    validation_tasks: int = field(default=100, validator=ge(0))
    """Number of validation tasks; none of them is trained on."""


def list_numbered(env_type: str, options: NumberedTasks, split: Split) -> Iterator[Task]:
    """Yield tasks with the ids `train-0`, `train-1` and so on."""
    for number in range(_size(options, split)):
        yield Task(task_id=f"{split}-{number}", env_type=env_type)


def locate_task(task_id: str, options: NumberedTasks) -> tuple[Split, int]:
    """Return split and number of an id; raises `DataError` for one that is not listed."""
    for split in SPLITS:
        head, _, number = task_id.rpartition("-")
        if head == split and number.isdecimal() and str(int(number)) == number and int(number) < _size(options, split):
            return split, int(number)
    ids = [f"{split}-0 to {split}-{_size(options, split) - 1}" for split in SPLITS if _size(options, split)]
    raise DataError(f"there is no task {task_id!r}; there are {' and '.join(ids) or 'none'}")


def make_random(name: str, options: NumberedTasks, split: Split, number: int) -> random.Random:
    """Return the random numbers of one task, which depend only on it."""
    return random.Random(f"{name}/{options.seed}/{split}/{number}")


def draw_for_split(name: str, split: Split, draw: Callable[[], T | None], content: Callable[[T], object]) -> T:
    """Draw until the result is a task of the split; None from `draw` is not a task.

    Raises `DataError` if the options allow too few different tasks.
    """
    for _ in range(MOST_DRAWS):
        drawn = draw()
        if drawn is not None and belongs_to_split(content(drawn), split):
            return drawn
    raise DataError(f"environment '{name}': its options leave too few different tasks for the split {split!r}: widen them")


def belongs_to_split(content: object, split: Split) -> bool:
    """Whether something may be a task of a split: one in eight is for validation only."""
    # Drawn from the content, so that no task is in both splits, however few there are.
    return (random.Random(f"split/{content!r}").randrange(8) == 0) == (split == "validation")


def _size(options: NumberedTasks, split: Split) -> int:
    return options.training_tasks if split == "train" else options.validation_tasks
