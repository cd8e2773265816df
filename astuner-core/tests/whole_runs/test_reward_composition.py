"""Several judges in a real run: gates, shaping and the penalty for length, each part logged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from harness import Cli

from astuner_devkit.project import EXACT_ANSWER, write_project

BRIEF = """
from astuner import Verdict


class Brief:
    asked = 0

    def compute_reward(self, workflow_task, workflow_output):
        with open("asked.txt", "a") as file:
            file.write(workflow_task.task_id + "\\n")
        return Verdict(reward=8.0, is_success=True, components={"words": 1.0})
"""
TASKS = (
    {"task_id": "right", "main_query": "What is 2 + 2?", "answer": "4"},
    {"task_id": "wrong", "main_query": "What is 2 + 3?", "answer": "5"},
)


def section(**more: Any) -> dict[str, Any]:
    judges = [
        {"judge": "./brief.py:Brief", "name": "brief", "requires": {"exact": 1.0}, "otherwise": -0.5, "shape": {"scale": 0.125}},
        {"judge": EXACT_ANSWER, "name": "exact", "weight": 2.0},
    ]
    return {"task_judge": {"judges": judges, **more}}


def played(directory: Path, cli: Cli, settings: dict[str, Any]) -> tuple[dict[str, Any], str]:
    conf = write_project(directory, tasks=TASKS, settings=settings)
    (directory / "brief.py").write_text(BRIEF, encoding="utf-8")
    ended = cli("run", "--conf", conf, cwd=directory)
    assert ended.returncode == 0, ended.stderr
    (run,) = (directory / "launcher_record").iterdir()
    return json.loads((run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[0]), ended.stderr


def test_the_parts_of_a_reward_are_logged_and_a_gate_spares_its_judge(tmp_path: Path, cli: Cli) -> None:
    metrics, _ = played(tmp_path, cli, section())
    assert metrics["reward/mean"] == pytest.approx(((2.0 + 1.0) + (0.0 - 0.5)) / 2)
    # In its own units `brief` gave 8 to one answer; what counts for the other, -0.5, is a -4 before its shape.
    assert (metrics["reward/exact"], metrics["reward/brief"], metrics["reward/brief.words"]) == (0.5, 2.0, 1.0)
    assert (tmp_path / "asked.txt").read_text(encoding="utf-8").split() == ["right"]


def test_the_reward_is_shaped_and_length_has_its_price(tmp_path: Path, cli: Cli) -> None:
    reward = {"combine": "max", "shape": {"low": 0.0}, "overlong": {"from_tokens": 0, "over_tokens": 4, "penalty": 1.0}}
    metrics, _ = played(tmp_path, cli, section(reward=reward))
    # One character and the end of the turn are two sampled tokens.
    assert metrics["reward/overlong"] == pytest.approx(-0.5)
    assert metrics["reward/mean"] == pytest.approx((1.0 + 0.0) / 2 - 0.5)


def test_a_key_of_an_llm_that_nobody_asks_is_remarked_on(tmp_path: Path, cli: Cli) -> None:
    _, said = played(tmp_path, cli, section(alien_llm_model="qwen-max"))
    assert "task_judge.alien_llm_model has no effect: no judge of this run reads it." in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"requires": {"exakt": 1.0}}, "'brief' requires 'exakt'; there are: brief, exact"),
        ({"name": "exact"}, "two judges are known as 'exact'"),
    ],
)
def test_a_composition_that_cannot_be_ends_before_anything_starts(
    tmp_path: Path, cli: Cli, change: dict[str, Any], said: str
) -> None:
    settings = section()
    settings["task_judge"]["judges"][0].update(change)
    conf = write_project(tmp_path, settings=settings)
    (tmp_path / "brief.py").write_text(BRIEF, encoding="utf-8")
    ended = cli("run", "--conf", conf, cwd=tmp_path)
    assert ended.returncode == 2
    assert said in ended.stderr
    assert not (tmp_path / "launcher_record").exists()
