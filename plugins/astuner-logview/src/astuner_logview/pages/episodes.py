"""The list of episodes: filtered, sorted, a page at a time."""

from __future__ import annotations

import base64
import json
import sqlite3
from typing import Any

from astuner_logview.errors import BadRequest
from astuner_logview.filters.completion import describe_filter
from astuner_logview.filters.keys import KEYS
from astuner_logview.filters.language import parse_filter
from astuner_logview.filters.sql import build_condition
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library
from astuner_logview.pages.episode_rows import describe_row
from astuner_logview.pages.problems import list_problems
from astuner_logview.pages.snippets import find_snippet
from astuner_logview.parameters import Parameters

SORTS = {
    "step": "step",
    "reward": "reward",
    "tokens": "tokens",
    "turns": "turns",
    "duration": "duration",
    "advantage": "advantage",
    "task": "task",
}
MOST_VALUES = 200


def list_episodes(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return a page of the episodes that a filter selects."""
    run = library.find(parameters.run)
    given = parse_filter(parameters.find_text("filter") or "")
    sort = parameters.find_choice("sort", list(SORTS))
    order = parameters.find_choice("order", ("desc", "asc") if sort != "task" else ("asc", "desc"))
    limit = parameters.find_limit(100, 1000)
    condition, values = build_condition(given)
    key, after, more = _build_page(SORTS[sort], order, parameters.find_text("after"))
    with run.index.open() as connection:
        total = connection.execute(f"SELECT count(*) FROM episodes WHERE {condition}", values).fetchone()[0]
        rows = connection.execute(
            f"SELECT *, {key} AS sort_key FROM episodes WHERE {condition} AND {after} ORDER BY sort_key {order}, place LIMIT ?",
            (*values, *more, limit + 1),
        ).fetchall()
        indexed = run.index.measure_progress(connection)
    page = rows[:limit]
    words = [word for word in given.words if not word.negated]
    return {
        "episodes": [describe_row(row, find_snippet(run.path, row, words) if words else None) for row in page],
        "total": total,
        "next": _encode_cursor(page[-1]) if len(rows) > limit else None,
        "indexed": indexed,
        "problems": list_problems(run),
    }


def complete_filter(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return what a filter means, and what may be asked for."""
    return describe_filter(parameters.find_text("text") or "")


def list_values(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return the values of a key in a run, each with how many episodes have it, the most frequent first."""
    run, name = library.find(parameters.run), parameters.read_text("key")
    if name not in KEYS:
        raise BadRequest(f"there is no key '{name[:40]}'", f"give one of {', '.join(KEYS)}")
    with run.index.open() as connection:
        rows = connection.execute(f"{_select_values(name)} GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT ?", (MOST_VALUES,)).fetchall()
    return {"values": [[row[0], row[1]] for row in rows]}


def _select_values(name: str) -> str:
    match name:
        case "agent" | "finding" | "lost":
            return f"SELECT value, count(*) FROM episodes, json_each({KEYS[name].column})"
        case "component":
            return "SELECT key, count(*) FROM episodes, json_each(components)"
        case "split":
            return f"SELECT CASE split WHEN 0 THEN '{SPLITS[0]}' ELSE '{SPLITS[1]}' END, count(*) FROM episodes"
        case "success":
            return "SELECT CASE success WHEN 1 THEN 'yes' WHEN 0 THEN 'no' ELSE 'unknown' END, count(*) FROM episodes"
        case "judge":
            return "SELECT CASE judge_failed WHEN 1 THEN 'failed' ELSE 'ok' END, count(*) FROM episodes"
        case "failed":
            return "SELECT coalesce(reason, judge_reason), count(*) FROM episodes WHERE completed=0 OR judge_failed=1"
    return f"SELECT {KEYS[name].column}, count(*) FROM episodes WHERE {KEYS[name].column} IS NOT NULL"


def _build_page(column: str, order: str, cursor: str | None) -> tuple[str, str, tuple[Any, ...]]:
    """Return the key to sort by, unknown values last, and the condition for what follows a cursor, with its values."""
    last = "''" if column == "task" else "9e999" if order == "asc" else "-9e999"
    key = f"coalesce({column}, {last})"
    if cursor is None:
        return key, "1", ()
    try:
        value, place = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if not isinstance(place, str) or not isinstance(value, str | int | float):
            raise ValueError("it holds something else")
    except (ValueError, TypeError, RecursionError) as error:
        raise BadRequest("after: is not a place in this list", "take the `next` of an answer") from error
    sign = ">" if order == "asc" else "<"
    return key, f"({key} {sign} ? OR ({key} = ? AND place > ?))", (value, value, place)


def _encode_cursor(row: sqlite3.Row) -> str:
    return base64.urlsafe_b64encode(json.dumps([row["sort_key"], row["place"]]).encode()).decode()
