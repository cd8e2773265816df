"""The row of a data set that a task was made of, for code that knows the columns by their own names."""

from __future__ import annotations

import json
from typing import Any

from astuner.contract.schema import Task

NO_ENVIRONMENT = Task().env_type

MESSAGES = "all messages"
"""In `Task.columns`: the column is the list of `init_messages` and the query. Behind it stands the last message, in JSON, if that
is more than a text."""

NUMBER_ID = "task_id as a number"
"""In `Task.columns`: the column is the task's id, and holds a number."""


def restore_row(task: Task) -> dict[str, Any]:
    """Return the row of a task as its reader read it, with `main_query` and `task_id`.

    Each column has its own name and value again, also those that became the query, the messages or the id of the task. The
    keys of a column `metadata`, and the fields that an option `columns` names, are there too. A task that was not made of a
    row has its metadata, and its messages as `init_messages`.
    """
    row = dict(task.metadata)
    for column, place in task.columns.items():
        row[column] = _find_value(task, place)
    places = {place.partition("{")[0] for place in task.columns.values()}
    if task.init_messages and not {"init_messages", MESSAGES} & {*places, *row}:
        row["init_messages"] = _list_messages(task)
    if task.env_type != NO_ENVIRONMENT:
        row.setdefault("env_type", task.env_type)
    for name, value in (("main_query", task.main_query), ("task_id", task.task_id)):
        if row.get(name) in (None, ""):
            row[name] = value
    return row


def _find_value(task: Task, place: str) -> Any:
    match place:
        case "main_query" | "task_id" | "env_type":
            return getattr(task, place)
        case "init_messages":
            return _list_messages(task)
        case "metadata":
            return dict(task.metadata)
        case _ if place.startswith(MESSAGES):
            last = place.removeprefix(MESSAGES)
            return [*_list_messages(task), json.loads(last) if last else {"role": "user", "content": task.main_query}]
        case _ if place == NUMBER_ID:
            return json.loads(task.task_id)
        case _:
            return task.metadata.get(place)


def _list_messages(task: Task) -> list[dict[str, Any]]:
    return [dict(message) for message in task.init_messages]
