"""What is known of a split after it was read once: digests of it and of each task, and where each task can be read again."""

from __future__ import annotations

import hashlib
import json
import sys
from array import array
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from itertools import islice
from typing import Any

from attrs import asdict, define, field, frozen

from astuner.contract.schema import Task
from astuner.shared.tabular.strict_json import make_encoder
from astuner.shared.user_cache import read_cached, write_cached

KEPT_FROM = 5_000
"""Tasks of a split from which on its index is kept for the next start: fewer are read in a tenth of a second."""
MOST_KINDS = 256
"""Kinds of tasks in a split up to which its index is kept."""
MOST_BYTES = 256 << 20
"""Of all indexes that are kept; a million tasks take 16 MB."""

_AT_ONCE = 1024
_FOLDER, _FORMAT = "tasks", 1


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


@define(kw_only=True, eq=False)
class TaskIndex:
    """Eight bytes of each task's digest, and its place if the reader has places."""

    digest: TaskDigest
    known: array[int]
    places: array[int]
    """Empty if tasks can only be read one after the other."""
    first_of_kind: list[int] = field(factory=list)
    """The number of the first task of each kind: what a run needs of a task is in all of a kind, or in none."""
    mended: int = 0
    """How many tasks held text that is not valid Unicode."""
    first_mended: str = ""

    def keep(self, identity: str) -> None:
        """Keep the index for the next start, if it saves that more than it costs."""
        if len(self.places) < KEPT_FROM or not 0 < len(self.first_of_kind) <= MOST_KINDS:
            return
        facts = {name: getattr(self, name) for name in ("first_of_kind", "mended", "first_mended")}
        header = json.dumps(facts | {"digest": asdict(self.digest)}).encode()
        content = b"".join((len(header).to_bytes(8, "big"), header, self.known.tobytes(), self.places.tobytes()))
        write_cached(_FOLDER, _name_file(identity), content, most_bytes=MOST_BYTES)

    @classmethod
    def load(cls, identity: str) -> TaskIndex | None:
        """Return the index that was kept of tasks with this identity."""
        content = read_cached(_FOLDER, _name_file(identity))
        if content is None:
            return None
        begin = 8 + int.from_bytes(content[:8], "big")
        facts = json.loads(content[8:begin])
        middle = begin + 8 * facts["digest"]["tasks"]
        digest = TaskDigest(**facts.pop("digest"))
        return cls(digest=digest, known=array("Q", content[begin:middle]), places=array("Q", content[middle:]), **facts)


def _name_file(identity: str) -> str:
    facts = json.dumps([_FORMAT, version("astuner-core"), sys.byteorder, identity])
    return hashlib.sha256(facts.encode()).hexdigest()[:32]


def digest_tasks(tasks: Iterable[Task]) -> TaskDigest:
    """Read a split to its end and return its digest; holds a few tasks at a time."""
    return digest_each((task.task_id, digest_task(task)) for task in tasks)[0]


def digest_each(tasks: Iterable[tuple[str, bytes]]) -> tuple[TaskDigest, array[int]]:
    """Return the digest of a split, and eight bytes of each task, of the ids and digests of its tasks."""
    ids, content, known, total = hashlib.sha256(), hashlib.sha256(), array("Q"), 0
    source: Iterator[tuple[str, bytes]] = iter(tasks)
    while some := list(islice(source, _AT_ONCE)):
        ids.update("".join(f"{task_id!r}\n" for task_id, _ in some).encode("ascii", "backslashreplace"))
        own = b"".join(digest for _, digest in some)
        content.update(own)
        words = array("Q", own)
        if sys.byteorder == "little":
            words.byteswap()
        total += (sum(words[::4]) << 64) + sum(words[1::4])
        known.extend(words[3::4])
    unordered = f"{total % (1 << 128):032x}"
    digest = TaskDigest(tasks=len(known), ids=ids.hexdigest()[:32], content=content.hexdigest()[:32], unordered=unordered)
    return digest, known


def digest_task(task: Task) -> bytes:
    """Return the 32 bytes that differ for any two different tasks."""
    text = write_task(task) or _write((task.task_id, task.main_query, task.init_messages, task.env_type))
    return hashlib.sha256(text.encode()).digest()


def write_task(task: Task) -> str | None:
    """Return a task in JSON; None for metadata that has none: keys of other types, numbers that are not finite, a circle."""
    try:
        return _write((task.task_id, task.main_query, task.init_messages, task.env_type, task.metadata))
    except (TypeError, ValueError, RecursionError):
        return None


def _name_type(value: Any) -> str:
    # Not its repr, which may hold an address.
    return f"{type(value).__module__}.{type(value).__qualname__}"


_write = make_encoder(default=_name_type)
