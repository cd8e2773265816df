from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Astuner = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    file = tmp_path / "run.yaml"
    file.write_text("astuner:\n  seed: 7\n  rollout:\n    temprature: 0.5\n    top_p: high\n")
    return file


@pytest.fixture
def valid(conf: Path, tmp_path: Path) -> Path:
    """A configuration whose keys are right, whatever is installed."""
    (tmp_path / "model").mkdir()
    (tmp_path / "tasks.jsonl").write_text('{"main_query": "1+1?"}\n')
    (tmp_path / "agent.py").write_text("class Agent:\n    async def execute(self, workflow_task, tuner): ...\n")
    conf.write_text(
        """astuner:
  seed: 7
  backbone: debug
  model: {path: ./model}
  rollout: {user_workflow: "./agent.py:Agent"}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
"""
    )
    return conf


def test_every_problem_is_printed_with_its_place(astuner: Astuner, conf: Path) -> None:
    found = astuner("config", "validate", "--conf", str(conf))
    assert found.returncode == 2
    assert "run.yaml:4: astuner.rollout.temprature: " in found.stderr
    assert "Did you mean 'temperature'?" in found.stderr
    assert "run.yaml:5: astuner.rollout.top_p: " in found.stderr


def test_problems_as_json_are_one_document(astuner: Astuner, conf: Path) -> None:
    found = astuner("config", "validate", "--conf", str(conf), "--json")
    document = json.loads(found.stdout)
    assert (found.returncode, document["exit_code"], document["error"].count("\n")) == (2, 2, len(document["problems"]) - 1)
    # Reader and engine are the defaults, which may not be installed here.
    assert {(problem["key"], problem["line"]) for problem in document["problems"]} >= {
        ("astuner.model.path", 1),
        ("astuner.rollout.user_workflow", 3),
        ("astuner.rollout.temprature", 4),
        ("astuner.rollout.top_p", 5),
    }


def test_a_component_that_is_not_installed_is_a_problem_too(astuner: Astuner, valid: Path) -> None:
    found = astuner("config", "validate", "--conf", str(valid), "--set", "task_judge.judge_type=no_such_judge")
    assert found.returncode == 2
    assert "astuner.task_judge.judge_type: no judge 'no_such_judge'" in found.stderr


def test_a_problem_of_the_command_line_has_no_line(astuner: Astuner, valid: Path) -> None:
    found = astuner("config", "validate", "--conf", str(valid), "--set", "task_judge.judge_type=no_such_judge", "--json")
    places = {(problem["file"], problem["line"]) for problem in json.loads(found.stdout)["problems"]}
    assert ("--set task_judge.judge_type", None) in places


def test_a_file_that_is_not_there_is_a_usage_error(astuner: Astuner) -> None:
    found = astuner("config", "validate", "--conf", "absent.yaml")
    assert found.returncode == 2
    assert "absent.yaml" in found.stderr
