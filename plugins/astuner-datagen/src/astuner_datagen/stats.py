"""Counts, lengths and duplicates of a reader's tasks; in one pass, without holding tasks."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

from attrs import define, field

from astuner.contract.schema import Task
from astuner_datagen.drafts import ANSWER, find_query
from astuner_datagen.evidence import to_plain


@define(eq=False)
class SplitStats:
    """The figures of one split."""

    tasks: int = 0
    with_answer: int = 0
    with_messages: int = 0
    duplicates: int = 0
    """Tasks that repeat an earlier query, ignoring case, space and markup."""
    env_types: Counter[str] = field(factory=Counter)
    lengths: array[int] = field(factory=lambda: array("Q"))
    """Characters of the queries."""
    queries: set[bytes] = field(factory=set)

    @classmethod
    def of(cls, tasks: Iterable[Task]) -> SplitStats:
        """Count."""
        stats = cls()
        for task in tasks:
            query = find_query(task)
            digest = blake2b(to_plain(query).encode(), digest_size=8).digest()
            stats.tasks += 1
            stats.with_answer += task.metadata.get(ANSWER) is not None
            stats.with_messages += bool(task.init_messages)
            stats.duplicates += digest in stats.queries
            stats.env_types[task.env_type] += 1
            stats.lengths.append(len(query))
            stats.queries.add(digest)
        return stats

    def as_json(self) -> Mapping[str, Any]:
        """Return the figures."""
        lengths = sorted(self.lengths)
        length: dict[str, float] = {}
        if lengths:
            length = {"min": lengths[0], "median": lengths[len(lengths) // 2], "max": lengths[-1]}
            length["mean"] = round(sum(lengths) / len(lengths), 1)
        return {
            "tasks": self.tasks,
            "query_characters": length,
            "with_answer": self.with_answer,
            "with_messages": self.with_messages,
            "duplicates": self.duplicates,
            "env_types": dict(sorted(self.env_types.items())),
        }


def count_shared(one: SplitStats, other: SplitStats) -> int:
    """Return how many queries are in both splits."""
    return len(one.queries & other.queries)
