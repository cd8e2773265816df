"""Which tasks are trained in which step: one order for all backbones, a function of the seed alone."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import islice

from astuner.errors import ConfigError, Problem
from astuner.protocols import Reader
from astuner.schema import Split, Task

SHUFFLE_WINDOW = 4096
"""Tasks held in memory to shuffle a stream; a split up to this size is shuffled whole."""


class TaskSampler:
    """Draws batches from a reader: shuffled per epoch, the remainder of an epoch dropped, streaming throughout."""

    def __init__(
        self, reader: Reader, *, batch_size: int, epochs: int, seed: int, total_steps: int | None = None, shuffle: bool = True
    ) -> None:
        """Read the splits once to count and check them; `total_steps` overrides what the epochs give."""
        self._reader = reader
        self._batch_size = batch_size
        self._seed = seed
        self._shuffle = shuffle
        self.train_tasks = _count(reader, "train")
        self.validation_tasks = _count(reader, "validation")
        self._steps_per_epoch = self.train_tasks // batch_size
        self._total_steps = total_steps if total_steps is not None else epochs * self._steps_per_epoch
        self._next_step = 0
        self._stream: Iterator[Task] = iter(())

    @property
    def total_steps(self) -> int:
        """How many training steps the run has; raises `ConfigError` when the split does not fill one batch."""
        if self.train_tasks < self._batch_size:
            message = f"{self._batch_size} tasks per step, but the training split has {self.train_tasks}; use at most that many"
            raise ConfigError([Problem(key="astuner.data.train_batch_size", message=message)])
        return self._total_steps

    def first(self, count: int) -> Sequence[Task]:
        """Return the first training tasks in the reader's order."""
        return list(islice(self._reader.read("train"), count))

    def batch(self, step: int, draw: int = 0) -> Sequence[Task]:
        """Return the tasks of a step (from 1); with `draw`, further ones that are not in the step's batch."""
        if draw:
            return self._draw_further(step, draw)
        epoch, position = divmod(step - 1, self._steps_per_epoch)
        if step != self._next_step or position == 0:
            self._stream = islice(self._read_epoch(f"{self._seed}/{epoch}"), position * self._batch_size, None)
        self._next_step = step + 1
        return list(islice(self._stream, self._batch_size))

    def validation(self) -> Sequence[Task]:
        """Return all validation tasks, in the reader's order."""
        return list(self._reader.read("validation"))

    def _draw_further(self, step: int, draw: int) -> Sequence[Task]:
        fresh = TaskSampler.__new__(TaskSampler)
        fresh.__dict__.update(self.__dict__, _next_step=0)
        taken = {task.task_id for task in fresh.batch(step)}
        for earlier in range(1, draw):
            taken.update(task.task_id for task in self._draw(step, earlier, taken))
        return self._draw(step, draw, taken)

    def _draw(self, step: int, draw: int, taken: set[str]) -> list[Task]:
        candidates = (task for task in self._read_epoch(f"{self._seed}/{step}/{draw}") if task.task_id not in taken)
        return list(islice(candidates, self._batch_size))

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


def _count(reader: Reader, split: Split) -> int:
    return sum(1 for _ in reader.read(split))
