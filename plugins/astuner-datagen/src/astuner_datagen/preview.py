"""A few tasks for people to read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from astuner.contract.schema import Task
from astuner_datagen.drafts import ANSWER, find_query


def as_row(task: Task) -> Mapping[str, Any]:
    """Return a whole task as JSON values."""
    return {
        "task_id": task.task_id,
        "main_query": task.main_query,
        "init_messages": list(task.init_messages),
        "env_type": task.env_type,
        "metadata": dict(task.metadata),
    }


def as_table(tasks: Iterable[Task], width: int) -> str:
    """Return a row per task, cut to the width: id, question, answer."""
    rows = [
        ("task", "query", "answer"),
        *((task.task_id, _flatten(find_query(task)), _flatten(_answer(task))) for task in tasks),
    ]
    ids = min(max(len(row[0]) for row in rows), 24)
    answers = min(max(len(row[2]) for row in rows), 30)
    queries = max(width - ids - answers - 4, 20)
    return "\n".join(
        f"{_cut(one, ids):<{ids}}  {_cut(query, queries):<{queries}}  {_cut(answer, answers)}".rstrip()
        for one, query, answer in rows
    )


def format_columns(rows: Sequence[tuple[str, str]]) -> str:
    """Return two columns of texts."""
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {value}".rstrip() for name, value in rows)


def _answer(task: Task) -> str:
    value = task.metadata.get(ANSWER, "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _flatten(text: str) -> str:
    return " ".join(text.split())


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(width - 1, 0)]}…"
