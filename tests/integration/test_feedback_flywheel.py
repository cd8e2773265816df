"""The flywheel of the tutorial, once around: a deployed agent, what its users say, tasks, a run on them, the tuned model."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY, Cli, environment
from runs_on_disk import metric_rows, record

TUTORIAL = REPOSITORY / "tutorial" / "feedback_flywheel"
STEPS = 3


@pytest.fixture(scope="module")
def flywheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("flywheel") / "feedback_flywheel"
    shutil.copytree(TUTORIAL, home, ignore=shutil.ignore_patterns("launcher_record", "tuned", "*.jsonl*"))
    return home


def deploy(home: Path, model: Path, day: int) -> str:
    command = [sys.executable, "deploy.py", "--model", str(model), "--questions=16", f"--day={day}"]
    done = subprocess.run(command, cwd=home, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_once_around(cli: Cli, flywheel: Path, quickstart: Path):
    assert deploy(flywheel, quickstart / "model", day=1).startswith("day 1: ")
    imported = cli(
        "trace",
        "import",
        "traces.jsonl",
        "--out=tasks.jsonl",
        "--validation-fraction=0.25",
        "--validation-out=validation.jsonl",
        "--json",
        cwd=flywheel,
    )
    assert imported.returncode == 0, imported.stderr
    counts = json.loads(imported.stdout)
    assert (counts["traces"], counts["annotations"], counts["broken"]) == (16, 16, [])
    assert sum(counts["tasks"].values()) + counts["filtered"]["deduplication"] == 16
    rows = [json.loads(line) for line in (flywheel / "tasks.jsonl").read_text().splitlines()]
    # Right or wrong, after a user's word every task has the right answer.
    products = [re.search(r"(\d+) \* (\d+)", row["main_query"]) for row in rows]
    assert all(str(int(found[1]) * int(found[2])) in row["metadata"]["answer"] for found, row in zip(products, rows, strict=True))

    tuned = cli(
        "run",
        "--conf=tune.yaml",
        "--set=data.train_batch_size=3",
        "--set=rollout.num_repeat=4",
        f"--set=trainer_common.total_training_steps={STEPS}",
        "--set=trainer_common.val_before_train=false",
        cwd=flywheel,
        env={"FLYWHEEL_MODEL": str(quickstart / "model")},
    )
    assert tuned.returncode == 0, tuned.stderr
    judged = [row["signal/episodes_rewarded"] for row in metric_rows(record(flywheel, "day_1")) if "reward/mean" in row]
    assert judged == [12] * STEPS

    exported = cli("export", "launcher_record/day_1", "--out=tuned", cwd=flywheel)
    assert exported.returncode == 0, exported.stderr
    assert deploy(flywheel, flywheel / "tuned", day=2).startswith("day 2: ")
    # The second day is appended to the first.
    again = cli("trace", "import", "traces.jsonl", "--out=tasks.jsonl", "--keep-duplicates", "--json", cwd=flywheel)
    assert json.loads(again.stdout)["tasks"]["train"] == 32


def test_a_run_reads_the_traces_itself(cli: Cli, flywheel: Path, quickstart: Path):
    if not (flywheel / "traces.jsonl").exists():
        deploy(flywheel, quickstart / "model", day=1)
    finished = cli(
        "run",
        "--conf=tune.yaml",
        "--backbone=debug",
        "--set=task_reader.type=tracing",
        "--set=task_reader.tracing={sources: traces.jsonl, validation_fraction: 0.25}",
        "--set=experiment_name=direct",
        "--set=rollout.name=scripted",
        "--set=rollout.scripted={replies: ['I do not know.']}",
        cwd=flywheel,
        env={"FLYWHEEL_MODEL": str(quickstart / "model")},
    )
    assert finished.returncode == 0, finished.stderr
    assert "annotations" in finished.stderr
    (kept,) = (flywheel / "launcher_record" / "direct.debug" / "tracing").iterdir()
    assert {path.name for path in kept.iterdir()} == {"train.jsonl", "validation.jsonl", "counts.json"}


def test_the_page_says_what_is_tested():
    text = (TUTORIAL / "README.md").read_text()
    for command in (
        "python deploy.py --model",
        "astuner trace import traces.jsonl",
        "astuner run --conf tune.yaml",
        "astuner export",
    ):
        assert command in text
