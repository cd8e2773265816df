"""What is known of a split that was read once: digests of it and of each task, and where each task can be read again."""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import islice
from typing import Any

from attrs import asdict, frozen

from astuner.contract.schema import Task
from astuner.shared.tabular.strict_json import make_encoder
from astuner.shared.user_cache import keep_cached, read_cached

KEPT_FROM = 5_000
"""Tasks from which on the index of a split is kept: fewer are read in a tenth of a second."""
MOST_KINDS = 256
"""Kinds of tasks up to which it is kept."""
MOST_BYTES = 256 << 20
"""Of all that are kept; a million tasks take 16 MB."""


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


def digest_tasks(tasks: Iterable[tuple[str, bytes]]) -> tuple[TaskDigest, array[int]]:
    """Return the digest of a split, of the ids and digests of its tasks, and the last eight bytes of the latter."""
    ids, content, known, total = hashlib.sha256(), hashlib.sha256(), array("Q"), 0
    source: Iterator[tuple[str, bytes]] = iter(tasks)
    while some := list(islice(source, 1024)):
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
