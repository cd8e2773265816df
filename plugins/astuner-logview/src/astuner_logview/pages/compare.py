"""The page that compares runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict

from astuner.contract.schema import Split
from astuner.runs.inspection import Run
from astuner_logview.errors import BadRequest
from astuner_logview.index.schema import SPLITS
from astuner_logview.library import Library, LibraryRun
from astuner_logview.pages.problems import list_problems
from astuner_logview.pages.run_rows import describe_run, thin_out
from astuner_logview.parameters import Parameters
from astuner_tools.comparison import CURVES, compare_runs
from astuner_tools.task_scores import TaskScore

MOST_RUNS = 12
MOST_POINTS = 1000

SCORES = """
SELECT e.task, e.step, count(e.success) AS decided, coalesce(sum(e.success), 0) AS successes, count(e.reward) AS rewarded,
    coalesce(sum(e.reward), 0.0) AS reward
FROM episodes e JOIN (SELECT task, max(step) AS step FROM episodes WHERE split=? GROUP BY task) last
    ON e.task = last.task AND e.step = last.step
WHERE e.repeat>=0 AND e.split=? GROUP BY e.task ORDER BY min(e.offset)"""


def compare(library: Library, parameters: Parameters) -> dict[str, Any]:
    """Return how runs differ: configuration, curves, and tasks by the last time that each was played."""
    names = list(dict.fromkeys(parameters.values.get("run") or ()))
    if not 2 <= len(names) <= MOST_RUNS:
        raise BadRequest(f"2 to {MOST_RUNS} different runs can be compared", "give run=…&run=…")
    runs = [library.find(name) for name in names]
    by_run = {id(run.run): run for run in runs}
    metrics = list(parameters.values.get("metric") or CURVES)

    def score(run: Run, split: Split) -> Mapping[str, TaskScore]:
        return score_tasks(by_run[id(run)], split)

    found = compare_runs([run.run for run in runs], metrics=metrics, split=parameters.find_split(), score=score)
    rows = [describe_run(library, run) for run in runs]
    problems = [text for run in runs for text in list_problems(run)]
    problems += [
        f"{row['name']}: its episodes are still being read ({row['indexed']:.0%}): its tasks are those of a part"
        for row in rows
        if row["indexed"] < 1
    ]
    return {
        "runs": rows,
        "configuration": [asdict(one) for one in found.configuration],
        "curves": {name: [thin_out(curve, MOST_POINTS) for curve in curves] for name, curves in found.curves.items()},
        "split": found.split,
        "measure": found.measure,
        "tasks": [{"task": one.task, "scores": list(one.scores)} for one in found.tasks],
        "same_tasks": found.same_tasks,
        "problems": list(dict.fromkeys(problems)),
    }


def score_tasks(run: LibraryRun, split: Split) -> dict[str, TaskScore]:
    """Return the scores by task, from the index."""
    number = SPLITS.index(split)
    with run.index.open() as connection:
        return {
            row["task"]: TaskScore(
                step=row["step"],
                successes=row["successes"],
                decided=row["decided"],
                reward=row["reward"],
                rewarded=row["rewarded"],
            )
            for row in connection.execute(SCORES, (number, number))
        }
