"""The page of a task over the steps, and the list of tasks."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any

from astuner_logview.filters.language import parse_filter
from astuner_logview.filters.sql import build_condition
from astuner_logview.index.message_text import list_tool_calls, read_content
from astuner_logview.index.record_reading import GONE, read_episode_outline
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library, LibraryRun
from astuner_logview.pages.episode_rows import describe_row
from astuner_logview.pages.lookups import explain_missing
from astuner_logview.pages.problems import list_problems
from astuner_logview.parameters import Parameters

LONGEST_ANSWER = 20_000
MOST_PLAYS = 200
"""Groups on one page; of more, the first and the last ones are shown."""


def show_task(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return every time that a run has played a task."""
    run, task, split = library.find(parameters.run), parameters.read_text("task"), parameters.find_split()
    wanted = [SPLITS.index(split)] if split else list(range(len(SPLITS)))
    with run.index.open() as connection:
        rows = connection.execute(
            "SELECT * FROM episodes WHERE task=? AND split IN (SELECT value FROM json_each(?)) ORDER BY step, split, repeat",
            (task, str(wanted)),
        ).fetchall()
        before = connection.execute("SELECT max(task) FROM episodes WHERE task<?", (task,)).fetchone()[0]
        after = connection.execute("SELECT min(task) FROM episodes WHERE task>?", (task,)).fetchone()[0]
        if not rows:
            raise explain_missing(run, connection, f"episode of a task '{task[:200]}'", "look at the list of tasks")
    groups: dict[tuple[int, int], list[sqlite3.Row]] = {}
    for row in rows:
        groups.setdefault((row["step"], row["split"]), []).append(row)
    keys = list(groups)
    shown = keys if len(keys) <= MOST_PLAYS else [*keys[: MOST_PLAYS // 2], *keys[-MOST_PLAYS // 2 :]]
    problems = list_problems(run)
    if len(shown) < len(keys):
        problems.append(f"{len(keys) - len(shown)} of {len(keys)} plays are left out, in the middle")
    try:
        checkpoints = list(run.run.directory.list_saved_steps())
    except OSError:
        checkpoints = []
    return {
        "task": task,
        "query": rows[-1]["query"],
        "plays": [_describe_play(run, groups[key]) for key in shown],
        "steps": sorted({step for step, _ in keys}),
        "checkpoints": checkpoints,
        "previous": before,
        "next": after,
        "problems": problems,
    }


def list_tasks(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return a row for each task of the selected episodes, by id."""
    run = library.find(parameters.run)
    condition, values = build_condition(parse_filter(parameters.find_text("filter") or ""))
    limit, after = parameters.find_limit(200, 2000), parameters.find_text("after")
    with run.index.open() as connection:
        total = connection.execute(f"SELECT count(DISTINCT task) FROM episodes WHERE {condition}", values).fetchone()[0]
        tasks = [
            row[0]
            for row in connection.execute(
                f"SELECT DISTINCT task FROM episodes WHERE {condition} AND task>? ORDER BY task LIMIT ?",
                (*values, after if after is not None else "", limit + 1),
            )
        ]
        rows = connection.execute(
            "SELECT task, step, split, avg(reward) AS reward, avg(success) AS success, max(query) AS query FROM episodes "
            f"WHERE {condition} AND repeat>=0 AND task>? AND task<=? GROUP BY task, step, split ORDER BY task, step, split",
            (*values, after if after is not None else "", tasks[:limit][-1] if tasks else ""),
        ).fetchall()
    plays: dict[str, list[sqlite3.Row]] = {task: [] for task in tasks[:limit]}
    for row in rows:
        plays[row["task"]].append(row)
    return {
        "tasks": [_describe_task(task, found) for task, found in plays.items()],
        "total": total,
        "next": tasks[limit - 1] if len(tasks) > limit else None,
        "problems": list_problems(run),
    }


def _describe_task(task: str, plays: Sequence[sqlite3.Row]) -> dict[str, Any]:
    rewards = [play["reward"] for play in plays if play["reward"] is not None]
    successes = [play["success"] for play in plays if play["success"] is not None]
    return {
        "task": task,
        "query": plays[-1]["query"],
        "plays": len(plays),
        "first_reward": rewards[0] if rewards else None,
        "last_reward": rewards[-1] if rewards else None,
        "change": rewards[-1] - rewards[0] if rewards else None,
        "success_rate": successes[-1] if successes else None,
    }


def _describe_play(run: LibraryRun, rows: Sequence[sqlite3.Row]) -> dict[str, Any]:
    rewards = [row["reward"] for row in rows if row["reward"] is not None and row["repeat"] >= 0]
    successes = [row["success"] for row in rows if row["success"] is not None and row["repeat"] >= 0]
    return {
        "split": SPLITS[rows[0]["split"]],
        "step": rows[0]["step"],
        "reward_mean": sum(rewards) / len(rewards) if rewards else None,
        "success_rate": sum(successes) / len(successes) if successes else None,
        "episodes": [{**describe_row(row), "answer": read_answer(run, row)} for row in rows],
    }


def read_answer(run: LibraryRun, row: sqlite3.Row) -> str:
    """Return the last reply of an episode; empty if it is no longer there."""
    try:
        calls = read_episode_outline(run.path, row)["calls"]
    except GONE:
        return ""
    for call in reversed(calls):
        text = read_content(call["reply"].get("content"))
        text = text or "\n".join(f"{one['name']}({one['arguments']})" for one in list_tool_calls(call["reply"]))
        if text:
            return text[:LONGEST_ANSWER]
    return ""
