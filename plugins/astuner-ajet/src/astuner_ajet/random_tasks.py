"""The reader `random_dummy`: tasks that are only a number, for workflows that draw everything else from it."""

from __future__ import annotations

import random
from collections.abc import Iterator

from attrs import field, frozen
from attrs.validators import ge

from astuner.contract.schema import Split, Task

SEED = 42


class RandomTasksReader:
    """Yields tasks whose `metadata["random_number"]` is a number from 0, each once, in an order that is always the same."""

    @frozen(kw_only=True)
    class Options:
        """Options of the reader `random_dummy`."""

        count: int = field(default=1000, validator=ge(1))
        """How many tasks a split has."""

    def __init__(self, options: Options | None = None) -> None:
        self._count = (options or self.Options()).count

    def read(self, split: Split) -> Iterator[Task]:
        """Yield the tasks of a split; both have the same."""
        numbers = list(range(self._count))
        random.Random(SEED).shuffle(numbers)
        for number in numbers:
            yield Task(f"[dummy task @ {number}]", task_id=str(number), metadata={"random_number": number})
