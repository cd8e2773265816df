"""What a run records of its tasks, its code and its model is what it has read, whatever lies there a moment later."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from harness import REPOSITORY, Cli
from runs_on_disk import record

from astuner.runs.store.fingerprints import fingerprint_file

HERE = Path(__file__).parent
SETTINGS = (
    "backbone=./replacing.py:Backbone",
    "rollout.user_workflow=./replacing.py:Agent",
    "rollout.name=scripted",
    'rollout.scripted.replies=["4"]',
    "trainer_common.val_before_train=true",
    "trainer_common.total_training_steps=2",
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    shutil.copytree(HERE / "stored_runs" / "project", tmp_path / "project")
    for file in (HERE / "replacing.py", REPOSITORY / "tests" / "support" / "serving_backbone.py"):
        shutil.copy(file, tmp_path / "project")
    return tmp_path / "project"


def play(cli: Cli, project: Path, *more: str, replaced: str = "") -> CompletedProcess[str]:
    settings = [f"--set={one}" for one in SETTINGS]
    return cli("run", "--conf", "tune.yaml", *settings, *more, cwd=project, env={"REPLACED": replaced})


def read_sources(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((record(project, "stored") / "run.json").read_text())["sources"]
    return found


@pytest.mark.parametrize("new", ['{"task_id": "t0", "main_query": "another?"}', ""], ids=["another task", "fewer tasks"])
def test_a_task_file_that_is_replaced_before_it_is_played_ends_the_run(cli: Cli, project: Path, new: str) -> None:
    tasks = project / "tasks.jsonl"
    old = tasks.read_text()
    first, *others = old.splitlines(keepends=True)
    (project / "tasks.jsonl.new").write_text("".join([f"{new}\n", *others] if new else others[:2] and [first, *others[:2]]))
    ended = play(cli, project, replaced="validation tasks.jsonl")
    assert ended.returncode == 1, ended.stderr
    assert "the train tasks have changed since this start read them" in ended.stderr
    assert "Traceback" not in ended.stderr
    refused = play(cli, project, "--resume")
    assert refused.returncode == 2
    assert "--accept-changes data" in refused.stderr
    tasks.write_text(old)
    resumed = play(cli, project, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert "changed since" not in resumed.stderr


def test_the_code_that_is_recorded_is_the_code_that_was_loaded(cli: Cli, project: Path) -> None:
    loaded = fingerprint_file(project / "replacing.py")
    (project / "replacing.py.new").write_text((project / "replacing.py").read_text() + "\n# edited\n")
    played = play(cli, project, replaced="import replacing.py")
    assert played.returncode == 0, played.stderr
    assert (project / "replacing.py").read_text().endswith("# edited\n")
    assert read_sources(project)["code"]["replacing.py"] == loaded


def test_a_model_that_is_replaced_while_it_is_loaded_ends_the_run(cli: Cli, project: Path) -> None:
    file = project / "model" / "generation_config.json"
    file.with_name(f"{file.name}.new").write_text(file.read_text() + "\n")
    ended = play(cli, project, replaced="load model/generation_config.json")
    assert ended.returncode == 1, ended.stderr
    assert "the files of the model have changed while it was loaded: generation_config.json changed" in ended.stderr
    assert not list((record(project, "stored") / "checkpoints").iterdir())
