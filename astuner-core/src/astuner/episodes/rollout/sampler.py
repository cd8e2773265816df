"""Which tasks are trained in which step: one order for all backbones, a function of the seed alone."""

from __future__ import annotations

import hashlib
import json
import random
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, count, islice
from typing import Any

from attrs import frozen

from astuner.contract.errors import ConfigError, Problem, RunFailed
from astuner.contract.protocols import Reader
from astuner.contract.schema import Split, Task
from astuner.contract.user_values.tasks import CheckedTasks

SHUFFLE_WINDOW = 4096
"""Tasks held in memory to shuffle a stream; a split up to this size is shuffled whole."""


class TaskSampler:
    """Draws batches from a reader, streaming throughout.

    Each epoch is shuffled and its remainder dropped, another one in each. Unshuffled, the remainder begins the first batch of the
    next epoch.
    """

    def __init__(
        self,
        reader: Reader,
        *,
        batch_size: int,
        epochs: int,
        seed: int,
        total_steps: int | None = None,
        shuffle: bool = True,
        max_draws: int = 1,
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Read the splits once to count and check them; `total_steps` overrides what the epochs give.

        `max_draws` is how many further draws a step makes at most; those of the next step begin behind them. `report` gets
        a text if something was changed in the tasks.
        """
        checked = CheckedTasks(reader)
        self._reader = SteadyTasks(checked)
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._max_draws = max_draws
        self.digests: Mapping[Split, TaskDigest] = self._reader.digests
        self.train_tasks, self.validation_tasks = self.digests["train"].tasks, self.digests["validation"].tasks
        if (changed := checked.describe_mended()) is not None:
            report(changed)
        self._total_steps = total_steps if total_steps is not None else self.count_steps(epochs)
        self._batches = _EndlessTasks(lambda epoch: self._read_epoch(f"{seed}/{epoch}"), self.train_tasks)
        self._draws = _EndlessTasks(lambda epoch: self._read_epoch(f"{seed}/draws/{epoch}"), self.train_tasks)

    @property
    def total_steps(self) -> int:
        """How many training steps the run has; raises `ConfigError` when the split does not fill one batch."""
        if self.train_tasks < self._batch_size:
            message = f"{self._batch_size} tasks per step, but the training split has {self.train_tasks}; use at most that many"
            raise ConfigError([Problem(key="astuner.data.train_batch_size", message=message)])
        return self._total_steps

    def count_steps(self, epochs: int) -> int:
        """Return how many batches a number of epochs fills."""
        if self._shuffle:
            return epochs * (self.train_tasks // self._batch_size)
        return epochs * self.train_tasks // self._batch_size

    def first(self, count: int) -> Sequence[Task]:
        """Return the first training tasks in the reader's order."""
        return list(islice(self._reader.read("train"), count))

    def batch(self, step: int, draw: int = 0) -> Sequence[Task]:
        """Return the tasks of a step (from 1); with `draw`, further ones that are in none of the step's earlier batches.

        Further draws walk through the split in an order of their own, so that in time they reach all of it; unshuffled,
        they go on behind the step's batch.
        """
        begin = self._find_begin(step)
        batch = list(islice(self._batches.walk(begin), self._batch_size))
        if not draw:
            return batch
        walk = self._draws.walk((step - 1) * self._max_draws * self._batch_size if self._shuffle else begin + self._batch_size)
        taken = {task.task_id for task in batch}
        # Any two epochs' length of the walk holds a whole epoch, so every task that is left.
        further: dict[str, Task] = {}
        for task in islice(walk, 2 * self.train_tasks):
            if len(further) == draw * self._batch_size or len(further) + len(taken) == self.train_tasks:
                break
            if task.task_id not in taken:
                further.setdefault(task.task_id, task)
        return list(further.values())[(draw - 1) * self._batch_size :]

    def validation(self) -> Sequence[Task]:
        """Return all validation tasks, in the reader's order."""
        return list(self._reader.read("validation"))

    def _find_begin(self, step: int) -> int:
        """Return the position of a step's first task in the epochs, one after the other."""
        if not self._shuffle:
            return (step - 1) * self._batch_size
        epoch, position = divmod(step - 1, self.train_tasks // self._batch_size)
        return epoch * self.train_tasks + position * self._batch_size

    def _read_epoch(self, key: str) -> Iterator[Task]:
        if not self._shuffle:
            yield from self._reader.read("train")
            return
        rng = random.Random(key)
        window: list[Task] = []
        for task in self._reader.read("train"):
            if len(window) < SHUFFLE_WINDOW:
                window.append(task)
                continue
            chosen = rng.randrange(SHUFFLE_WINDOW)
            yield window[chosen]
            window[chosen] = task
        rng.shuffle(window)
        yield from window


class _EndlessTasks:
    """Epoch after epoch, by position; going forward reads each epoch once."""

    def __init__(self, read_epoch: Callable[[int], Iterator[Task]], length: int) -> None:
        self._read_epoch, self._length = read_epoch, length
        self._begin = 0
        self._held: list[Task] = []
        """What was read from `_begin` on: the next walk may begin within it."""
        self._rest: Iterator[Task] | None = None

    def walk(self, begin: int) -> Iterator[Task]:
        """Yield the tasks from a position on. A walk ends where the next one begins."""
        reached = self._begin + len(self._held)
        if self._rest is None or begin < self._begin or begin // self._length > reached // self._length:
            epoch, reached = begin // self._length, begin - begin % self._length
            self._held, self._rest = [], chain.from_iterable(map(self._read_epoch, count(epoch)))
        else:
            del self._held[: begin - self._begin]
        if not self._held:
            deque(islice(self._rest, begin - reached), maxlen=0)
        self._begin = begin
        yield from self._held
        for task in self._rest:
            self._held.append(task)
            yield task


@frozen(kw_only=True)
class TaskDigest:
    """The number of tasks of a split, and digests of them."""

    tasks: int
    ids: str
    """Of their ids, in order."""
    content: str
    """Of everything in them, in order."""
    unordered: str
    """The same in any order."""


class SteadyTasks:
    """Reads both splits once, and later only what was read then: files may be replaced while a run lasts."""

    def __init__(self, reader: Reader) -> None:
        """Read to the end; eight bytes of each task stay in memory."""
        self._reader = reader
        self._known: Mapping[Split, array[int]] = {"train": array("Q"), "validation": array("Q")}
        self.digests = {split: digest_tasks(reader.read(split), known) for split, known in self._known.items()}

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split; raises `RunFailed` before the first that is another one than at the start."""
        known, number = self._known[split], 0
        for number, task in enumerate(self._reader.read(split), 1):
            if known[number - 1 : number].tolist() != [int.from_bytes(_digest(task)[-8:], "big")]:
                raise _make_change_error(split, f"task {number}, '{task.task_id}', is another one")
            yield task
        if number < len(known):
            raise _make_change_error(split, f"they end after task {number}")


def digest_tasks(tasks: Iterable[Task], known: array[int] | None = None) -> TaskDigest:
    """Read a split to its end and return its digest; holds one task at a time, and adds a number for each to `known`."""
    count, total = 0, 0
    ids, content = hashlib.sha256(), hashlib.sha256()
    for task in tasks:
        count += 1
        ids.update(f"{task.task_id!r}\n".encode("ascii", "backslashreplace"))
        own = _digest(task)
        content.update(own)
        total += int.from_bytes(own[:16], "big")
        if known is not None:
            known.append(int.from_bytes(own[-8:], "big"))
    return TaskDigest(
        tasks=count, ids=ids.hexdigest()[:32], content=content.hexdigest()[:32], unordered=f"{total % (1 << 128):032x}"
    )


def _make_change_error(split: Split, what: str) -> RunFailed:
    return RunFailed(
        f"the {split} tasks have changed since this start read them: {what}. Nothing that changed was played. Put back what was "
        "there and continue with --resume, or take the new ones with --resume --accept-changes data",
        resumable=True,
    )


def _digest(task: Task) -> bytes:
    return hashlib.sha256(_dump(task)).digest()


def _dump(task: Task) -> bytes:
    parts = (task.task_id, task.main_query, task.init_messages, task.env_type, task.metadata)
    try:
        return json.dumps(parts, default=_dump_other).encode()
    except (TypeError, ValueError, RecursionError):
        # Metadata that is not JSON: keys of other types, or a circle. The rest still counts.
        return json.dumps(parts[:4], default=_dump_other).encode()


def _dump_other(value: Any) -> str:
    # Not its repr, which may hold an address.
    return f"{type(value).__module__}.{type(value).__qualname__}"
