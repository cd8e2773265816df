"""A sampler of tasks in runs on `local`: episodes go where there is something to learn, and a killed run goes on the same."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from harness import SMALL, Cli, environment
from python_server import PythonServer
from runs_on_disk import metric_rows, record, times_generated, weights_digest

STEPS = 8
FEW = 12
"""Tasks, half of which nobody can solve."""


@pytest.fixture
def hard_project(project: Path) -> Path:
    """The quickstart's project with few training tasks; the answers of every other one are wrong."""
    (file,) = (project / "tasks").glob("train*")
    rows = [json.loads(line) for line in file.read_text().splitlines()[:FEW]]
    for number, row in enumerate(rows):
        row["task_id"] = f"{'hopeless' if number % 2 else 'open'}-{number}"
        if number % 2:
            row["answer"] = "no calculator says this"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return project


def list_options(*more: str) -> tuple[str, ...]:
    return (*SMALL, f"--set=trainer_common.total_training_steps={STEPS}", "--set=data.sampler=success_rate", *more)


def count_tasks(run: Path, first: int, last: int) -> Counter[str]:
    """Return how many episodes tasks of each kind had in these steps."""
    played = (identity.split("/") for identity in times_generated(run))
    return Counter(task.partition("-")[0] for _, step, task, _ in played if first <= int(step) <= last)


def test_episodes_go_to_the_tasks_that_can_be_learnt(hard_project: Path, cli: Cli) -> None:
    options = list_options("--set=data.success_rate.floor=0.02", "--set=data.success_rate.decay=1")
    finished = cli("run", "--conf", "tune.yaml", *options, cwd=hard_project)
    assert finished.returncode == 0, finished.stderr
    run = record(hard_project)
    rows = [row for row in metric_rows(run) if row["kind"] == "train"]
    # Once all tasks are known, in the first half of the run, the hopeless ones have little left of the episodes.
    assert rows[STEPS // 2 - 1]["sampler/tasks_seen"] > 0.7
    late = count_tasks(run, STEPS // 2 + 1, STEPS)
    assert late["hopeless"] < late["open"] / 2, late


def test_killed_in_the_middle_it_goes_on_with_the_same_tasks_to_the_same_weights(
    hard_project: Path, cli: Cli, python_server: PythonServer
) -> None:
    options = list_options()
    cut = hard_project.with_name("cut")
    shutil.copytree(hard_project, cut, symlinks=True)
    assert cli("run", "--conf", "tune.yaml", *options, cwd=hard_project).returncode == 0
    with (cut / "log.txt").open("ab") as log:
        process = python_server.start(
            ["-m", "astuner", "run", "--conf", "tune.yaml", *options],
            cwd=cut,
            env=environment(),
            output=(log, log),
            start_new_session=True,
        )
    deadline = time.monotonic() + 120
    # In the fifth step; the last checkpoint is of the fourth.
    while len(list((record(cut) / "checkpoints").glob("step_4"))) == 0 or count_lines(record(cut)) < 4 * 12 + 3:
        assert process.poll() is None, (cut / "log.txt").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    finished = cli("run", "--conf", "tune.yaml", *options, "--resume", cwd=cut)
    assert finished.returncode == 0, finished.stderr
    whole, resumed = record(hard_project), record(cut)
    assert times_generated(resumed) == times_generated(whole)
    assert metric_rows(resumed) == metric_rows(whole)
    assert weights_digest(resumed, STEPS) == weights_digest(whole, STEPS)
    one, two = ((run / "checkpoints" / f"step_{STEPS}" / "sampler.json").read_bytes() for run in (whole, resumed))
    assert one == two


def count_lines(run: Path) -> int:
    try:
        return sum(times_generated(run).values())
    except ValueError:
        return 0  # a line is being written
