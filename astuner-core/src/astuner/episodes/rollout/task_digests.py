"""What identifies the tasks of a split, so that a resumed run notices that they are others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from astuner.contract.schema import Task


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


def digest_tasks(tasks: Iterable[Task]) -> TaskDigest:
    """Read a split to its end and return its digest; holds one task at a time."""
    count, total = 0, 0
    ids, content = hashlib.sha256(), hashlib.sha256()
    for task in tasks:
        count += 1
        ids.update(f"{task.task_id!r}\n".encode("ascii", "backslashreplace"))
        own = hashlib.sha256(_dump(task)).digest()
        content.update(own)
        total += int.from_bytes(own[:16], "big")
    return TaskDigest(
        tasks=count, ids=ids.hexdigest()[:32], content=content.hexdigest()[:32], unordered=f"{total % (1 << 128):032x}"
    )


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
