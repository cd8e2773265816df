"""The tasks of a run, checked, and later only those that were there at its start: files may be replaced while it lasts."""

from __future__ import annotations

import hashlib
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from astuner.contract.errors import DataError, RunFailed
from astuner.contract.plain_values import DEEPEST
from astuner.contract.protocols import Reader, ReaderTraits, read_traits
from astuner.contract.schema import Split, Task
from astuner.contract.user_values.tasks import check_task
from astuner.episodes.rollout.task_index import MOST_KINDS, TaskDigest, TaskIndex, digest_task, digest_tasks, write_task

Check = Callable[[Task, Split], None]
"""Raises `DataError` for a task that the run cannot play."""

_SHORT = 4000
"""Characters of a task in JSON that hold no integer with more digits than Python writes."""


class SteadyTasks:
    """Reads both splits once, or finds what an earlier start has kept of them, and later yields only what was there then."""

    def __init__(self, reader: Reader, checks: Sequence[Check] = ()) -> None:
        """Read to the end; sixteen bytes of each task stay in memory. Raises `DataError` for the first that cannot be used."""
        self._reader, self._checks = reader, checks
        self._places: Any = reader if _finds_places(reader) else None
        self._identities: dict[Split, str | None] = {}
        self._indexes: dict[Split, TaskIndex] = {split: self._open(split) for split in ("train", "validation")}
        self.digests: Mapping[Split, TaskDigest] = {split: index.digest for split, index in self._indexes.items()}

    def describe_mended(self) -> str | None:
        """Return how many of the tasks hold text that is not valid Unicode; None if none does."""
        count = sum(index.mended for index in self._indexes.values())
        first = next((f"'{index.first_mended}' ({split})" for split, index in self._indexes.items() if index.mended), None)
        text = f"the text of {count} task(s) is not valid Unicode, the first is {first}: each lone surrogate became U+FFFD"
        return text if count else None

    def read(self, split: Split, places: array[int] | None = None) -> Iterator[Task]:
        """Yield the tasks of a split; raises `RunFailed` before the first that is another one than at the start."""
        known, number = self._indexes[split].known, 0
        for number, given in enumerate(self._read_in_order(split, places), 1):
            task, digest, _ = self._check(given, split)
            if known[number - 1 : number].tolist() != [int.from_bytes(digest[-8:], "big")]:
                raise _make_change_error(split, f"task {number}, '{task.task_id}', is another one")
            yield task
        if number < len(known):
            raise _make_change_error(split, f"they end after task {number}")

    def list_items(self, split: Split) -> Iterable[Task | int]:
        """Return what `take` makes the tasks of, in their order: numbers, from 0, or the tasks if they have no places."""
        return range(len(places)) if (places := self._indexes[split].places) else self.read(split)

    def take(self, split: Split, item: Task | int) -> Task:
        """Return the task of an item; raises as `read` does, for any task of the split, if a file has changed."""
        if isinstance(item, Task):
            return item
        index, identity = self._indexes[split], self._places.identify_tasks(split)
        if identity != self._identities[split] or (task := self._find(index, split, item)) is None:
            del index.places[:]
            deque(self.read(split, index.places), maxlen=0)
            self._identities[split] = identity
            if (task := self._find(index, split, item)) is None:
                raise _make_change_error(split, f"task {item + 1} is another one")
        return task

    def _open(self, split: Split) -> TaskIndex:
        identity = self._identities[split] = None if self._places is None else self._places.identify_tasks(split)
        index = None if identity is None else TaskIndex.load(identity)
        # This run may need something else of the tasks than the earlier one did.
        if index is not None and all(self._find(index, split, number) is not None for number in index.first_of_kind):
            return index
        index = self._read_first(split, placed=identity is not None)
        if identity is not None and identity == self._places.identify_tasks(split):
            index.keep(identity)
        return index

    def _read_first(self, split: Split, *, placed: bool) -> TaskIndex:
        places, first_of_kind, mended = array("Q"), dict[tuple[Any, ...], int](), list[str]()

        def digest_checked() -> Iterator[tuple[str, bytes]]:
            for number, given in enumerate(self._read_in_order(split, places if placed else None)):
                task, digest, was_mended = self._check(given, split)
                kind = (task.env_type, not task.main_query, not task.init_messages, *task.columns, None, *task.metadata)
                if kind not in first_of_kind and len(first_of_kind) <= MOST_KINDS:
                    first_of_kind[kind] = number
                if was_mended:
                    mended.append(task.task_id)
                yield task.task_id, digest

        digest, known = digest_tasks(digest_checked())
        first, kinds = min(mended, default=""), [*first_of_kind.values()]
        return TaskIndex(digest=digest, known=known, places=places, first_of_kind=kinds, mended=len(mended), first_mended=first)

    def _read_in_order(self, split: Split, places: array[int] | None) -> Iterator[Task]:
        return self._reader.read(split) if places is None else self._places.read_places(split, places)

    def _find(self, index: TaskIndex, split: Split, number: int) -> Task | None:
        """Return a task by its number, from 0; None if something else is in its place, or cannot be used."""
        try:
            task, digest, _ = self._check(self._places.read_at(split, number, index.places[number]), split)
        except (DataError, OSError):
            return None
        return task if index.known[number] == int.from_bytes(digest[-8:], "big") else None

    def _check(self, task: Task, split: Split) -> tuple[Task, bytes, bool]:
        """Return a task with plain values, its digest, and whether some text of it was not valid Unicode."""
        for check in self._checks:
            check(task, split)
        # What was parsed just now needs no second walk, and no copy, if its text shows that it is plain.
        text = None if self._places is None else write_task(task)
        if text is not None and _is_plain(text) and (not task.init_messages or task.main_query.strip()):
            return task, hashlib.sha256(text.encode()).digest(), False
        task, mended = check_task(task, split)
        return task, digest_task(task), mended


def _is_plain(text: str) -> bool:
    """Whether `make_plain` would change nothing about parsed JSON that is written again as this text; False if in doubt."""
    return len(text) <= _SHORT and ("\\" not in text or "\\ud" not in text) and text.count("[") + text.count("{") <= DEEPEST


def _finds_places(reader: Reader) -> bool:
    """Whether a reader finds its tasks by their places; not one that inherits or passes on how, and reads in its own way."""
    owner = next((kind for kind in type(reader).__mro__ if "read" in vars(kind)), object)
    return read_traits(reader, ReaderTraits).finds_places and "read_places" in vars(owner)


def _make_change_error(split: Split, what: str) -> RunFailed:
    return RunFailed(
        f"the {split} tasks have changed since this start read them: {what}. Nothing that changed was played. Put back what was "
        "there and continue with --resume, or take the new ones with --resume --accept-changes data",
        resumable=True,
    )
