"""The table of steps."""

from __future__ import annotations

import sqlite3
from typing import Any
from urllib.parse import quote

from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library, LibraryRun
from astuner_logview.pages.problems import list_problems
from astuner_logview.parameters import Parameters

BY_STEP = """
SELECT split, step, count(*) AS episodes, sum(completed=0 OR judge_failed) AS failed, count(DISTINCT task) AS groups,
    avg(reward) AS reward_mean, min(reward) AS reward_min, max(reward) AS reward_max, avg(success) AS success_rate,
    sum(tokens + retried) AS tokens
FROM episodes WHERE repeat>=0 AND split BETWEEN ? AND ? GROUP BY split, step ORDER BY step, split"""

BY_GROUP = """
SELECT split, step, task, avg(reward) AS reward_mean, sum(signal) AS signal, max(trained) AS trained
FROM episodes WHERE repeat>=0 AND split BETWEEN ? AND ? GROUP BY split, step, task"""


def list_steps(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return a row for each step with episodes."""
    run, split = library.find(parameters.run), parameters.find_split()
    wanted = (SPLITS.index(split), SPLITS.index(split)) if split else (0, len(SPLITS) - 1)
    with run.index.open() as connection:
        rows = connection.execute(BY_STEP, wanted).fetchall()
        groups: dict[tuple[int, int], list[sqlite3.Row]] = {}
        for group in connection.execute(BY_GROUP, wanted):
            groups.setdefault((group["split"], group["step"]), []).append(group)
    times = {row["step"]: row.get("time/step_s") for row in run.run.read_rows() if row["kind"] == "train"}
    steps = [
        {
            **{key: row[key] for key in row.keys() if key != "split"},  # noqa: SIM118 - a row iterates over its values
            "split": SPLITS[row["split"]],
            "without_signal": _count_dead(row["split"], groups[row["split"], row["step"]]),
            "worst": choose_worst(run, row["split"], groups[row["split"], row["step"]]),
            "time_s": times.get(row["step"]) if row["split"] == 0 else None,
        }
        for row in rows
    ]
    return {"steps": steps, "problems": list_problems(run)}


def choose_worst(run: LibraryRun, split: int, groups: list[sqlite3.Row]) -> dict[str, Any] | None:
    """Return the group with the lowest mean reward among those with a signal; without any, the lowest."""
    rewarded = [group for group in groups if group["reward_mean"] is not None]
    live = [group for group in rewarded if group["signal"]]
    worst = min(live or rewarded, key=lambda group: (group["reward_mean"], group["task"]), default=None)
    if worst is None:
        return None
    href = f"#/r/{quote(run.id, safe='')}/g/{SPLITS[split]}/{worst['step']}/{quote(worst['task'], safe='')}"
    return {"task": worst["task"], "reward_mean": worst["reward_mean"], "href": href}


def _count_dead(split: int, groups: list[sqlite3.Row]) -> int | None:
    return sum(not group["signal"] for group in groups) if split == 0 else None
