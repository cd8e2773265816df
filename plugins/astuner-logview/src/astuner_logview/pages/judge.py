"""The page of the judge: rewards by component, failures, and how replays agree."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from astuner.contract.errors import AstunerError
from astuner.contract.schema import Call, Episode, Group, Sample, Task, Unjudged, Verdict, WorkflowOutput
from astuner_logview.errors import Missing
from astuner_logview.index.group_signal import read_scoring
from astuner_logview.index.record_reading import GONE, read_episode_outline, read_stored_verdict
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library, LibraryRun
from astuner_logview.pages.filter_words import quote_value
from astuner_logview.pages.problems import list_problems
from astuner_logview.parameters import Parameters
from astuner_tools.replays.agreement import AgreementCount

BINS = 20

Counted = tuple[int, float, int]
"""A step, a number, and how often the step has it."""


def show_judge(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return the distribution of the rewards and of their components, and why judges failed."""
    run, step = library.find(parameters.run), parameters.find_number("step")
    split = parameters.find_split() or "train"
    where, values = "repeat>=0 AND split=?", [SPLITS.index(split)]
    if step is not None:
        where, values = f"{where} AND step=?", [*values, step]
    with run.index.open() as connection:
        rewards = connection.execute(f"SELECT 'reward', step, reward, count(*) FROM episodes WHERE {where} GROUP BY 2, 3", values)
        described = describe_numbers("reward", [row[1:] for row in rewards if row[2] is not None])
        found: dict[str, list[Counted]] = {}
        for row in connection.execute(
            f"SELECT key, step, value, count(*) FROM episodes, json_each(components) WHERE {where} GROUP BY 1, 2, 3", values
        ):
            if isinstance(row[2], int | float):
                found.setdefault(row[0], []).append((row[1], float(row[2]), row[3]))
        failures = connection.execute(
            f"SELECT *, count(*) AS count FROM episodes WHERE {where} AND judge_failed GROUP BY judge_reason ORDER BY count DESC",
            values,
        ).fetchall()
    scope = f"split:{split}" + ("" if step is None else f" step:{step}")
    return {
        "components": [describe_numbers(name, numbers) for name, numbers in sorted(found.items())],
        "rewards": described,
        "failures": [
            {
                "reason": row["judge_reason"],
                "count": row["count"],
                "filter": f"{scope} judge:failed failed:{quote_value(row['judge_reason'])}",
                "detail": _read_detail(run, row),
            }
            for row in failures
        ],
        "judges": _list_judges(run),
        "replays": [{"name": one.run.name, "id": one.id} for one in library.list_replays(run)],
        "problems": list_problems(run),
    }


def describe_numbers(name: str, numbers: Sequence[Counted]) -> dict[str, Any]:
    """Return the distribution of some numbers, and their means by step."""
    values = np.array([value for _, value, _ in numbers], dtype=np.float64)
    counts = np.array([count for _, _, count in numbers], dtype=np.int64)
    by_step: dict[int, list[tuple[float, int]]] = {}
    for step, value, count in numbers:
        by_step.setdefault(step, []).append((value, count))
    return {
        "name": name,
        "mean": _average(list(zip(values.tolist(), counts.tolist(), strict=True))),
        "min": float(values.min()) if len(values) else None,
        "max": float(values.max()) if len(values) else None,
        "count": int(counts.sum()),
        "histogram": _count_bins(values, counts),
        "by_step": [[step, _average(many)] for step, many in sorted(by_step.items())],
    }


def _average(numbers: Sequence[tuple[float, int]]) -> float | None:
    total = sum(count for _, count in numbers)
    return math.fsum(value * count for value, count in numbers) / total if total else None


def show_agreement(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return how the verdicts of a replay differ from those of the run."""
    run, name = library.find(parameters.run), parameters.read_text("replay")
    replay = next((one for one in library.list_replays(run) if name in (one.run.name, one.id)), None)
    if replay is None:
        raise Missing(f"the run has no replay '{name[:100]}'", "the page of its judge lists them")
    library.indexer.want(replay.path)
    split = parameters.find_split()
    count = AgreementCount(by_agent=read_scoring(run.path).by_agent)
    with run.index.open() as ours, replay.index.open() as theirs:
        new = {row["id"]: row for row in theirs.execute("SELECT * FROM episodes")}
        missing = 0
        rewards = {}
        for rows in _iterate_groups(ours, split):
            both = [(row, new[row["id"]]) for row in rows if row["id"] in new]
            missing += len(rows) - len(both)
            if both:
                count.add(_make_group([one for one, _ in both]), _make_group([one for _, one in both]))
                rewards.update({one["id"]: (one["reward"], other["reward"]) for one, other in both})
        indexed = min(run.index.measure_progress(ours), replay.index.measure_progress(theirs))
    found = count.sum_up()
    kinds = {"to_failure": found.to_failure, "to_success": found.to_success, "gained": found.gained, "lost": found.lost}
    flips = [
        {"id": one, "stored": rewards[one][0], "new": rewards[one][1], "kind": kind}
        for kind, many in kinds.items()
        for one in many
    ]
    problems = [*list_problems(run), *list_problems(replay)]
    if indexed < 1:
        problems.append(f"the episodes are still being read ({indexed:.0%}): the numbers are those of a part")
    return {
        "replay": {"name": replay.run.name, "id": replay.id},
        "agreement": found.agreement,
        "numbers": _list_numbers(found, missing),
        "flips": flips,
        "swapped": [_split_key(key) for key in found.swapped],
        "signal_gained": [_split_key(key) for key in found.signal_gained],
        "signal_lost": [_split_key(key) for key in found.signal_lost],
        "problems": problems,
    }


def _list_numbers(found: Any, missing: int) -> list[dict[str, Any]]:
    rows = [
        ("episodes", found.episodes, ""),
        ("groups", found.groups, ""),
        ("equal rewards", found.equal, "episodes"),
        ("different rewards", found.different, "episodes"),
        ("reward now, none before", len(found.gained), "episodes"),
        ("reward before, none now", len(found.lost), "episodes"),
        ("mean reward, stored", found.stored_reward, ""),
        ("mean reward, new", found.new_reward, ""),
        ("equal success", found.success_agreement, "share"),
        ("pairs of siblings with different rewards", found.pairs, "pairs"),
        ("in the other order now", found.pairs_reversed, "pairs"),
        ("equal now", found.pairs_tied, "pairs"),
        ("not in the replay", missing, "episodes"),
    ]
    return [{"label": label, "value": value, "unit": unit} for label, value, unit in rows]


def _iterate_groups(connection: sqlite3.Connection, split: str | None) -> Iterable[list[sqlite3.Row]]:
    wanted = str([SPLITS.index(split)] if split else list(range(len(SPLITS))))
    group: list[sqlite3.Row] = []
    for row in connection.execute(
        "SELECT * FROM episodes WHERE split IN (SELECT value FROM json_each(?)) ORDER BY split, step, task, repeat", (wanted,)
    ):
        if group and (row["split"], row["step"], row["task"]) != (group[0]["split"], group[0]["step"], group[0]["task"]):
            yield group
            group = []
        group.append(row)
    if group:
        yield group


def _make_group(rows: Sequence[sqlite3.Row]) -> Group:
    first = rows[0]
    split: Any = SPLITS[first["split"]]
    blank = Group(task=Task(task_id=first["task"]), step=first["step"], split=split, episodes=())
    return blank.with_played(map(_make_episode, rows))


def _make_episode(row: sqlite3.Row) -> Episode:
    """Return an episode with as many trained tokens and with the rewards of a row; nothing else of it is compared."""
    owners, none = json.loads(row["owners"]), np.zeros(0, np.int32)
    samples = tuple(
        Sample(
            episode_id=row["id"],
            task_id=row["task"],
            repeat=row["repeat"],
            agent=agent,
            ids=none,
            mask=np.ones(count, np.bool_),
            logprobs=np.zeros(0, np.float32),
            calls=(),
        )
        for agent, count in owners["sampled"].items()
    )
    calls = tuple(
        Call(
            index=place,
            agent=agent,
            target_tag=agent,
            parent=None,
            kept=0,
            prompt_ids=none,
            output_ids=none,
            logprobs=np.zeros(0, np.float32),
            finish_reason="stop",
        )
        for place, agent in enumerate(owners["asked"])
    )
    verdict: Verdict | Unjudged | None = None
    if row["judge_failed"]:
        verdict = Unjudged(reason=row["judge_reason"], reward=row["reward"])
    elif row["reward"] is not None:
        success = None if row["success"] is None else bool(row["success"])
        verdict = Verdict(reward=row["reward"], is_success=success, rewards=json.loads(row["rewards"] or "null"))
    split: Any = SPLITS[row["split"]]
    return Episode(
        id=row["id"],
        task=Task(task_id=row["task"]),
        step=row["step"],
        repeat=row["repeat"],
        split=split,
        output=WorkflowOutput() if row["completed"] else None,
        calls=calls,
        samples=samples,
        verdict=verdict,
    )


def _split_key(key: str) -> dict[str, Any]:
    split, step, task = key.split("/", 2)
    return {"split": split, "step": int(step), "task": task}


def _count_bins(values: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> list[list[float]]:
    different = np.unique(values)
    if len(different) <= BINS:
        # Rewards such as 0, 0.5 and 1 are bars of their own.
        return [[one, one, int(counts[values == one].sum())] for one in different.tolist()]
    found, edges = np.histogram(values, bins=BINS, weights=counts)
    ends = edges.tolist()
    return [[low, high, int(count)] for low, high, count in zip(ends, ends[1:], found.tolist(), strict=False)]


def _read_detail(run: LibraryRun, row: sqlite3.Row) -> str:
    try:
        data = read_stored_verdict(run.path, row) or read_episode_outline(run.path, row)["verdict"] or {}
    except GONE:
        return ""
    return str(data.get("detail") or "")[:2000]


def _list_judges(run: LibraryRun) -> list[str]:
    try:
        plugins = run.run.facts.get("plugins") or ()
    except AstunerError:
        return []
    return [str(one.get("name")) for one in plugins if isinstance(one, dict) and one.get("kind") == "judge"]
