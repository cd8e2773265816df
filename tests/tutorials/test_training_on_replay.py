"""A run is trained on from a checkpoint with the rewards of a replay."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from harness import SMALL, Cli, environment
from python_server import PythonServer
from runs_on_disk import metric_rows, record, recorded_tokens, times_generated, weights_digest

from astuner.runs.inspection.run import Run

FROM_PYTHON = """
import sys
import astuner
report = astuner.replay("calculator", "tune.yaml", sys.argv[1:], out="python", train_from=2)
run = astuner.Run(report.directory)
print(report.splits[0].agreement.agreement, run.path.name, run.state.status)
"""

KEYS = tuple(item if item.startswith("--set") else "--set=backbone=local" for item in SMALL)

SPOILT = """
def judge(workflow_task, workflow_output):
    return float(len(str(workflow_output.metadata.get("final_answer"))) % 3)
"""


@pytest.fixture(scope="module")
def project(quickstart: Path, cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose run `calculator` has four steps, and checkpoints of the second and the last."""
    home = tmp_path_factory.mktemp("trained") / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model"))
    (home / "model").symlink_to(quickstart / "model")
    finished = cli("run", "--conf", "tune.yaml", *SMALL, cwd=home)
    assert finished.returncode == 0, finished.stderr
    return home


@pytest.fixture
def trained(project: Path) -> Path:
    return record(project)


def test_with_the_same_judge_it_ends_with_the_same_weights(trained: Path, project: Path, cli: Cli):
    before = weights_digest(trained, 4)
    ran = cli("replay", "calculator", "--conf", "tune.yaml", *KEYS, "--train-from", "2", "--out", "again", cwd=project)
    assert ran.returncode == 0, ran.stderr
    again = project / "again"
    assert weights_digest(again, 4) == before == weights_digest(trained, 4)
    assert set(times_generated(again).values()) == {1}
    assert times_generated(again) == times_generated(trained)
    after = [[row for row in metric_rows(run) if row["step"] > 2] for run in (again, trained)]
    assert [{k: v for k, v in row.items() if k != "time/episodes_replayed"} for row in after[0]] == after[1]
    repeated = {name: content for name, content in recorded_tokens(trained).items() if name > "step_2.npz"}
    assert recorded_tokens(again) == repeated
    assert "step_4.npz" in repeated
    assert Run(again).state.status == "finished"


def test_from_python_it_is_the_same(trained: Path, project: Path, python_server: PythonServer):
    overrides = [item.removeprefix("--set=") for item in KEYS]
    ran = python_server.run(["-c", FROM_PYTHON, *overrides], cwd=project, env=environment(), timeout=240)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "1.0 python finished"
    assert weights_digest(project / "python", 4) == weights_digest(trained, 4)


def test_with_another_judge_it_is_another_run(trained: Path, project: Path, cli: Cli):
    (project / "spoilt.py").write_text(SPOILT)
    other = "--set=task_judge={judge_type: customized_protocol, judge_protocol: './spoilt.py:judge'}"
    ran = cli("replay", "calculator", "--conf", "tune.yaml", *KEYS, other, "--train-from", "2", cwd=project)
    assert ran.returncode == 0, ran.stderr
    assert "code changed" not in ran.stderr
    there = trained / "replays" / "calculator"
    assert weights_digest(there, 2) == weights_digest(trained, 2)
    assert weights_digest(there, 4) != weights_digest(trained, 4)
    refused = cli("replay", "calculator", "--conf", "tune.yaml", *KEYS, cwd=project)
    assert "holds something else than a replay of" in refused.stderr


def test_what_is_not_about_scores_stays(trained: Path, project: Path, cli: Cli):
    refused = cli("replay", "calculator", "--conf", "tune.yaml", *KEYS, "--train-from", "3", cwd=project)
    assert "--train-from 3" in refused.stderr
    assert "there are those of steps 2, 4" in refused.stderr
    seed = cli("replay", "calculator", "--conf", "tune.yaml", *KEYS, "--set=seed=7", "--train-from", "2", cwd=project)
    assert seed.returncode == 2
    assert "astuner.seed: was" in seed.stderr


def test_from_the_start_every_stored_step_is_trained_again(trained: Path, project: Path, cli: Cli):
    ran = cli("replay", "calculator", "--conf", "tune.yaml", *KEYS, "--train-from", "0", "--out", "start", cwd=project)
    assert ran.returncode == 0, ran.stderr
    assert weights_digest(project / "start", 4) == weights_digest(trained, 4)
    assert times_generated(project / "start") == times_generated(trained)
