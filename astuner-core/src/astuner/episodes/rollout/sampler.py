"""Which tasks are trained in which step: one order for all backbones, a function of the seed alone."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, count, islice
from typing import Any

from astuner.contract.errors import ConfigError, Problem
from astuner.contract.protocols import PlayedTask, Reader, TaskDraw
from astuner.contract.schema import Split, Task
from astuner.episodes.rollout.steady_tasks import Check, SteadyTasks, TaskDigest

SHUFFLE_WINDOW = 4096
"""Tasks held in memory to shuffle a stream; a split up to this size is shuffled whole."""


class Uniform:
    """Stands for the order of `TaskSampler`, which needs no choice; an extension that wraps it is given random tasks."""

    def choose(self, draw: TaskDraw, state: Mapping[str, Any]) -> Sequence[str]:
        """Return tasks of which each is as likely."""
        return draw.rng.sample(draw.tasks, draw.count)

    def observe(self, played: Sequence[PlayedTask], state: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the state as it is."""
        return state


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
        checks: Sequence[Check] = (),
        report: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Read the splits once to count and check them; `total_steps` overrides what the epochs give.

        `max_draws` is how many further draws a step makes at most; those of the next step begin behind them. `checks` see each
        task, and `report` gets a text if something was changed in them.
        """
        self._reader = SteadyTasks(reader, checks)
        self._take = partial(self._reader.take, "train")
        self._batch_size, self._shuffle, self._max_draws = batch_size, shuffle, max_draws
        self.digests: Mapping[Split, TaskDigest] = self._reader.digests
        self.train_tasks, self.validation_tasks = self.digests["train"].tasks, self.digests["validation"].tasks
        if (changed := self._reader.describe_mended()) is not None:
            report(changed)
        self._total_steps = total_steps if total_steps is not None else self.count_steps(epochs)
        self._batches = _EndlessItems(lambda epoch: self._order_epoch(f"{seed}/{epoch}"), self.train_tasks)
        self._draws = _EndlessItems(lambda epoch: self._order_epoch(f"{seed}/draws/{epoch}"), self.train_tasks)

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
        batch = [self._take(item) for item in islice(self._batches.walk(begin), self._batch_size)]
        if not draw:
            return batch
        walk = self._draws.walk((step - 1) * self._max_draws * self._batch_size if self._shuffle else begin + self._batch_size)
        taken = {task.task_id for task in batch}
        # Any two epochs' length of the walk holds a whole epoch, so every task that is left.
        further: dict[str, Task] = {}
        for task in map(self._take, islice(walk, 2 * self.train_tasks)):
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

    def _order_epoch(self, key: str) -> Iterator[Task | int]:
        items = iter(self._reader.list_items("train"))
        if not self._shuffle:
            yield from items
            return
        rng = random.Random(key)
        window = list(islice(items, SHUFFLE_WINDOW))
        draw = partial(rng.randrange, SHUFFLE_WINDOW)
        for item in items:
            chosen = draw()
            yield window[chosen]
            window[chosen] = item
        rng.shuffle(window)
        yield from window


class _EndlessItems:
    """Epoch after epoch, by position; going forward reads each epoch once."""

    def __init__(self, order_epoch: Callable[[int], Iterator[Task | int]], length: int) -> None:
        self._order_epoch, self._length = order_epoch, length
        self._begin = 0
        self._held: list[Task | int] = []
        """What was read from `_begin` on: the next walk may begin within it."""
        self._rest: Iterator[Task | int] | None = None

    def walk(self, begin: int) -> Iterator[Task | int]:
        """Yield the items from a position on. A walk ends where the next one begins."""
        reached = self._begin + len(self._held)
        if self._rest is None or begin < self._begin or begin // self._length > reached // self._length:
            epoch, reached = begin // self._length, begin - begin % self._length
            self._held, self._rest = [], chain.from_iterable(map(self._order_epoch, count(epoch)))
        else:
            del self._held[: begin - self._begin]
        if not self._held:
            deque(islice(self._rest, begin - reached), maxlen=0)
        self._begin = begin
        yield from self._held
        for item in self._rest:
            self._held.append(item)
            yield item
