"""A whole run that learns its rubrics first: a scripted model plays, a scripted LLM judges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import run_command
from astuner_devkit.project import write_project

ANSWER = "Here are units. Here are steps. Here are sources. Here are limits. Here are examples. Here are checks."


@pytest.fixture
def project(workplace: Any, world: Any, noisy: Any, tmp_path: Path) -> Path:
    noisy.flips = 0.0
    workplace.write("labelled.jsonl", world.rows(8, 1))
    section = {"dataset_file": {"training": {"file_path": "labelled.jsonl"}}, "evidence_samples": 4}
    judge = {"judge_type": "rubrics_auto_grader", "alien_llm_response_length": 300, "rubrics_auto_grader": section}
    tasks = [{"task_id": "good", "main_query": "What is it?"}]
    return write_project(tmp_path, tasks=tasks, replies=[ANSWER], settings={"task_judge": judge})


def verdicts(run: Path) -> list[dict[str, Any]]:
    lines = [line for file in (run / "episodes").glob("*.jsonl") for line in file.read_text(encoding="utf-8").splitlines()]
    return [found for line in lines for found in _verdicts(json.loads(line))]


def _verdicts(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        own = [value] if "reward" in value and "components" in value else []
        return own + [found for item in value.values() for found in _verdicts(item)]
    return [found for item in value for found in _verdicts(item)] if isinstance(value, list) else []


def test_a_run_learns_its_rubrics_grades_by_them_and_keeps_them(project: Path, workplace: Any) -> None:
    result = run_command("run", "--conf", project, "--backbone", "debug", cwd=project.parent)
    assert result.code == 0, result.err
    (kept,) = project.parent.glob("launcher_record/*/rubrics/auto_grader.yaml")
    (verdict, *_) = verdicts(kept.parents[1])
    assert verdict["reward"] == 1.0
    assert verdict["is_success"] is True
    assert set(verdict["components"]) == {f"rubric_{n + 1}" for n in range(len(verdict["components"]))}
    assert "learning from 8 labelled examples" in result.err
    assert {body["max_tokens"] for body in workplace.api.bodies} == {300, 1200}

    asked = len(workplace.api.bodies)
    again = run_command("run", "--conf", project, "--backbone", "debug", cwd=project.parent)
    assert again.code == 0, again.err
    assert "learning from" not in again.err
    grading = min(3, len(verdict["components"]))
    assert len(workplace.api.bodies) - asked == grading


def test_the_keys_of_the_llm_are_not_called_idle(project: Path) -> None:
    result = run_command("run", "--conf", project, "--backbone", "debug", cwd=project.parent)
    assert "alien_llm_response_length" not in result.out + result.err


def test_a_run_whose_rubrics_cannot_be_learnt_says_why_and_plays_nothing(project: Path, workplace: Any) -> None:
    workplace.api.script = lambda body, number: "I would rather not."
    result = run_command("run", "--conf", project, "--backbone", "debug", cwd=project.parent)
    assert result.code == 1
    assert "rubrics_auto_grader: no rubric was learnt (8 examples, 8 failed); the first failure: LLM 'qwen-max'" in result.err
