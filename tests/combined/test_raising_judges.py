"""A judge that raises on what the model wrote: the success that is reported is the true one, whatever the budget."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit.command_line import CommandResult, run_command
from astuner_devkit.project import write_project

JUDGES = """
import re


def raises(workflow_task, workflow_output):
    given = int(re.search(r"boxed\\{(.*?)\\}", workflow_output.metadata["final_answer"]).group(1))
    return given == int(workflow_task.task.metadata["answer"])


def forgets_to_return(workflow_task, workflow_output):
    if "boxed{4}" in workflow_output.metadata["final_answer"]:
        return 1.0, True


def returns_text(workflow_task, workflow_output):
    return True if "boxed{4}" in workflow_output.metadata["final_answer"] else "wrong"


class Whole:
    async def observe(self, episode, environment):
        return {}

    async def judge(self, group):
        return [raises_bare(one) for one in group.episodes if one.completed]


def raises_bare(episode):
    from astuner import Verdict
    return Verdict(float(re.search(r"boxed\\{(.*?)\\}", episode.output.metadata["final_answer"]).group(1)) == 4, True)
"""
TASKS = [
    *({"task_id": f"right{n}", "main_query": f"2 plus 2? {n}", "answer": "4"} for n in range(3)),
    *({"task_id": f"wrong{n}", "main_query": f"the sum of 2 and 2? {n}", "answer": "4"} for n in range(5)),
]


def play(directory: Path, judge: str, **rollout: Any) -> tuple[CommandResult, dict[str, float]]:
    (directory / "judges.py").write_text(JUDGES)
    lines = [{"match": "plus", "reply": "\\\\boxed{4}"}, {"match": "sum", "reply": "about four"}]
    (directory / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {"rollout": {"scripted": {"script": "script.jsonl"}, "num_repeat": 2, **rollout}}
    write_project(directory, f"./judges.py:{judge}", tasks=TASKS, settings=settings)
    done = run_command("run", "--conf", "project.yaml", cwd=directory)
    metrics = directory / "launcher_record" / "project.debug" / "metrics.jsonl"
    rows = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else [{}]
    return done, rows[-1] if rows else {}


@pytest.mark.parametrize("judge", ["raises", "forgets_to_return", "returns_text", "Whole"])
def test_the_reported_success_is_the_true_one(tmp_path: Path, judge: str) -> None:
    done, metrics = play(tmp_path, judge, failure_budget=1.0)
    assert done.code == 0, done.err
    assert (metrics["success/rate"], metrics["success/count"], metrics["reward/count"]) == (6 / 16, 16, 6)
    assert "reward 1.000 ±0.000 (6 of 16)  success 37.5%" in done.err


def test_the_key_gives_such_answers_their_reward(tmp_path: Path) -> None:
    done, metrics = play(tmp_path, "raises", failure_rewards={"judge_error": -1.0})
    assert done.code == 0, done.err
    assert (metrics["reward/mean"], metrics["success/rate"]) == (-0.25, 6 / 16)
    assert (metrics["signal/failed/judge_error"], "signal/lost/judge_error" in metrics) == (10, False)


def test_the_default_budget_ends_the_run_with_the_cause_once_its_line_and_the_key(tmp_path: Path) -> None:
    done, _ = play(tmp_path, "raises")
    assert done.code == 1
    assert "10 x judge_error: judge './judges.py:raises'" in done.err
    assert "(judges.py:6 in raises)" in done.err
    assert "set rollout.failure_rewards.judge_error: 0" in done.err
