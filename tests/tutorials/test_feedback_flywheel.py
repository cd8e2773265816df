"""A run reads the traces of a deployed agent itself. The whole flywheel is in `tests/tutorials/test_flywheel.py`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY, Cli, environment

TUTORIAL = REPOSITORY / "tutorial" / "feedback_flywheel"


@pytest.fixture(scope="module")
def flywheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("flywheel") / "feedback_flywheel"
    shutil.copytree(TUTORIAL, home, ignore=shutil.ignore_patterns("launcher_record", "tuned", "*.jsonl*"))
    return home


def test_a_run_reads_the_traces_itself(cli: Cli, flywheel: Path, quickstart: Path):
    deploy = [sys.executable, "deploy.py", "--model", str(quickstart / "model"), "--questions=16"]
    day = subprocess.run(deploy, cwd=flywheel, env=environment(), capture_output=True, text=True, timeout=240, check=False)
    assert day.returncode == 0, day.stderr
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
