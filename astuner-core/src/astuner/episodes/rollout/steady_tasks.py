"""The tasks of a run, checked, and later only those that were there at its start: files may be replaced while it lasts."""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import islice
from typing import Any

from attrs import asdict, frozen

from astuner.contract.errors import DataError, RunFailed
from astuner.contract.plain_values import DEEPEST
from astuner.contract.protocols import Reader, ReaderTraits, read_traits
from astuner.contract.schema import Split, Task
from astuner.contract.user_values.tasks import check_task
from astuner.shared.tabular.strict_json import make_encoder
from astuner.shared.user_cache import keep_cached, read_cached

Check = Callable[[Task, Split], None]
"""Raises `DataError` for a task that the run cannot play."""

_SHORT = 4000
"""Characters of a task in JSON that hold no integer with more digits than Python writes."""

KEPT_FROM = 5_000
"""Tasks from which on the index of a split is kept: fewer are read in a tenth of a second."""
MOST_KINDS = 256
"""Kinds of tasks up to which it is kept."""
MOST_BYTES = 256 << 20
"""Of all that are kept; a million tasks take 16 MB."""


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


@frozen(kw_only=True, eq=False)
class TaskIndex:
    """Sixteen bytes of each task, and what a start needs to know of all of them."""

    digest: TaskDigest
    known: array[int]
    """The last eight bytes of the digest of each task."""
    places: array[int]
    """Empty if tasks can only be read one after the other."""
    first_of_kind: list[int]
    """The number of the first task of each kind: those of a kind have the same columns, and the same environment."""
    mended: int
    """How many tasks held text that is not valid Unicode."""
    first_mended: str

    def keep(self, identity: str) -> None:
        """Keep the index for the next start with the same data, if that saves more than it costs."""
        if len(self.places) >= KEPT_FROM and len(self.first_of_kind) <= MOST_KINDS:
            facts = asdict(self, filter=lambda one, _: one.name not in ("known", "places"))
            content = json.dumps(facts).encode() + b"\n" + self.known.tobytes() + self.places.tobytes()
            keep_cached("tasks", _name_file(identity), content, most_bytes=MOST_BYTES)

    @classmethod
    def load(cls, identity: str) -> TaskIndex | None:
        """Return the index that was kept of the data with this identity."""
        if (content := read_cached("tasks", _name_file(identity))) is None:
            return None
        header, arrays = content.split(b"\n", 1)
        facts = json.loads(header)
        digest = TaskDigest(**facts.pop("digest"))
        middle = 8 * digest.tasks
        return cls(digest=digest, known=array("Q", arrays[:middle]), places=array("Q", arrays[middle:]), **facts)


def _name_file(identity: str) -> str:
    # The number changes with the format.
    facts = [2, version("astuner-core"), sys.byteorder, identity]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def digest_tasks(tasks: Iterator[tuple[str, bytes]]) -> tuple[TaskDigest, array[int]]:
    """Return the digest of a split, of the ids and digests of its tasks, and the last eight bytes of the latter."""
    ids, content, known, total = hashlib.sha256(), hashlib.sha256(), array("Q"), 0
    while some := list(islice(tasks, 1024)):
        ids.update("".join(f"{task_id!r}\n" for task_id, _ in some).encode("ascii", "backslashreplace"))
        content.update(own := b"".join(digest for _, digest in some))
        words = array("Q", own)
        if sys.byteorder == "little":
            words.byteswap()
        total += (sum(words[::4]) << 64) + sum(words[1::4])
        known.extend(words[3::4])
    unordered = f"{total % (1 << 128):032x}"
    return TaskDigest(tasks=len(known), ids=ids.hexdigest()[:32], content=content.hexdigest()[:32], unordered=unordered), known


def digest_task(task: Task) -> bytes:
    """Return 32 bytes that differ for tasks that differ."""
    text = write_task(task) or _write((task.task_id, task.main_query, task.init_messages, task.env_type))
    return hashlib.sha256(text.encode()).digest()


def write_task(task: Task) -> str | None:
    """Return a task in JSON; None for metadata that JSON does not have: other keys, numbers that are not finite, a circle."""
    try:
        return _write((task.task_id, task.main_query, task.init_messages, task.env_type, task.metadata))
    except (TypeError, ValueError, RecursionError):
        return None


def _name_type(value: Any) -> str:
    # Not its repr, which may hold an address.
    return f"{type(value).__module__}.{type(value).__qualname__}"


_write = make_encoder(default=_name_type)
