"""Readers in runs of the command line, with a scripted model: from the file or the family of puzzles to the reward."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from harness import Cli

from astuner.contract.schema import Task, WorkflowOutput, WorkflowTask
from astuner_devkit.project import write_project

PUZZLES = {"datasets": ["chain_sum", "countdown"], "size": 4, "validation_size": 0, "curriculum": {"end_level": 1}}
"""A section of the reader `reasoning_gym`."""


def project(home: Path, reader: str, section: Mapping[str, Any], judge: str, script: Sequence[Mapping[str, str]]) -> Path:
    """A project whose model answers by the script."""
    (home / "script.jsonl").write_text("".join(json.dumps(line) + "\n" for line in script), encoding="utf-8")
    settings = {
        "task_reader": {"type": reader, reader: section},
        "task_judge": {"judge_type": judge},
        "rollout": {"scripted": {"script": "script.jsonl"}, "num_repeat": 2},
        "debug": {"debug_first_n_tasks": 4},
    }
    return write_project(home, settings=settings)


def rewards(home: Path) -> dict[str, set[float]]:
    """The rewards of a run by task."""
    (path,) = home.glob("launcher_record/*/episodes/train.jsonl")
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    task_of = {e["episode"]["id"]: e["episode"]["task"]["task_id"] for e in entries if e["kind"] == "episode"}
    found: dict[str, set[float]] = {}
    for entry in entries:
        if entry["kind"] == "verdicts":
            for episode_id, verdict in entry["verdicts"].items():
                found.setdefault(task_of[episode_id], set()).add(verdict["reward"])
    return found


def test_a_csv_file_is_played_and_judged(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sums.csv").write_text('id,question,answer\none,"1 + 1,\nplease",2\ntwo,2 + 2,4\n', encoding="utf-8")
    script = [{"match": "1 \\+ 1,\n", "reply": "2"}, {"reply": "5"}]
    conf = project(tmp_path, "dataset_file", {"training": {"file_path": "sums.csv"}}, "math", script)
    done = cli("run", "--conf", conf.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rewards(tmp_path) == {"one": {1.0}, "two": {0.0}}


def test_a_broken_csv_file_ends_the_run_before_it_begins(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "sums.csv").write_text("question,answer\n1 + 1,2,3\n", encoding="utf-8")
    conf = project(tmp_path, "dataset_file", {"training": {"file_path": "sums.csv"}}, "math", [{"reply": "2"}])
    refused = cli("run", "--conf", conf.name, cwd=tmp_path)
    assert refused.returncode == 2
    assert "sums.csv:2: 3 cells, but the first line names 2 columns (question, answer)" in refused.stderr


def puzzles(**section: Any) -> list[Task]:
    pytest.importorskip("reasoning_gym", reason="comes with astuner-reasoning-gym")
    from astuner.settings.plugins.options import build_options
    from astuner_reasoning_gym.reader import ReasoningGymReader

    return list(ReasoningGymReader(build_options(ReasoningGymReader, section, key="task_reader.reasoning_gym")).read("train"))


def test_puzzles_are_played_and_scored_by_their_families(cli: Cli, tmp_path: Path) -> None:
    tasks = puzzles(**PUZZLES)
    right = tasks[:2]
    script = [
        {"match": re.escape(task.main_query[-120:]), "reply": f"So: <answer>{task.metadata['answer']}</answer>"} for task in right
    ]
    conf = project(tmp_path, "reasoning_gym", PUZZLES, "reasoning_gym", [*script, {"reply": "<answer>0</answer>"}])
    done = cli("run", "--conf", conf.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    found = rewards(tmp_path)
    assert [found[task.task_id] == {1.0} for task in tasks] == [True, True, False, False]


def test_a_family_that_there_is_not_ends_the_run_before_it_begins(cli: Cli, tmp_path: Path) -> None:
    pytest.importorskip("reasoning_gym", reason="comes with astuner-reasoning-gym")
    conf = project(tmp_path, "reasoning_gym", {"datasets": ["countdwn"]}, "reasoning_gym", [{"reply": "0"}])
    refused = cli("run", "--conf", conf.name, cwd=tmp_path)
    assert refused.returncode == 2
    assert "astuner.task_reader.reasoning_gym.datasets: no dataset 'countdwn' in reasoning-gym" in refused.stderr
    assert "did you mean 'countdown'" in refused.stderr


def test_the_right_answer_of_every_family_is_worth_one() -> None:
    pytest.importorskip("reasoning_gym", reason="comes with astuner-reasoning-gym")
    from reasoning_gym.factory import DATASETS

    from astuner_reasoning_gym.judge import ReasoningGymJudge

    families = sorted(set(DATASETS) - {"composite"})
    judge = ReasoningGymJudge(ReasoningGymJudge.Options(timeout_s=60.0, processes=1))
    scores: dict[str, list[float]] = {}
    for task in puzzles(datasets=families, size=2 * len(families), validation_size=0):
        # What has no right answer of its own scores all the same.
        answer = task.metadata.get("answer", "unknown")
        verdict = judge.compute_reward(
            WorkflowTask(task), WorkflowOutput(metadata={"final_answer": f"<answer>{answer}</answer>"})
        )
        scores.setdefault(task.metadata["reasoning_gym"]["dataset"], []).append(verdict.reward)
    judge.close()
    assert len(scores) == len(families)
    without_gold = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}
    assert {name for name, found in scores.items() if found != [1.0, 1.0]} == without_gold
