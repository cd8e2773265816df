"""What `astuner init` writes for each framework plays at once, with the real framework; docs/frameworks.md has its line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from harness import REPOSITORY

from astuner.runs.inspection.run import Run
from astuner_tools.new_projects.template import fill_project, read_frameworks, write_project

NEEDS_OPENAI_2 = ("agentscope1", "crewai", "llama-index")
MODEL_CALLS = {"dspy": {"train-000": 3, "train-001": 2}, "environment": {"train-000": 1, "train-001": 4}}
"""By task, where they are not two for a price that is looked up and one for a guess; DSPy asks for the answer apart."""
PAGE = REPOSITORY / "docs" / "frameworks.md"
ROW = re.compile(r"\| (?P<title>[^|]+) \| `(?P<line>.+)` \| `(?P<name>[\w-]+)` \|")


def mark(name: str) -> object:
    return pytest.param(name, marks=pytest.mark.openai2 if name in NEEDS_OPENAI_2 else ())


@pytest.mark.parametrize("name", [mark(name) for name in read_frameworks()])
def test_a_project_plays_without_a_model(name: str, tmp_path: Path):
    write_project(tmp_path / "shop", name, "code")
    # A process of its own: frameworks set up logging, threads and event loops when they are imported.
    command = [
        sys.executable,
        "-m",
        "astuner",
        "run",
        "--conf",
        "tune.yaml",
        "--backbone",
        "debug",
        "--set",
        "rollout.num_repeat=1",
    ]
    ended = subprocess.run(command, cwd=tmp_path / "shop", capture_output=True, text=True, check=False)
    shown = ended.stdout + ended.stderr
    assert ended.returncode == 0, shown
    episodes = {episode.task.task_id: episode for episode in Run(tmp_path / "shop/launcher_record/shop.debug").episodes()}
    assert {task: episode.reward for task, episode in episodes.items()} == {"train-000": 1.0, "train-001": 0.0}
    expected = MODEL_CALLS.get(name, {"train-000": 2, "train-001": 1})
    assert {task: len(episode.calls) for task, episode in episodes.items()} == expected, shown
    assert "each byte is a token" in shown


def read_rows() -> list[re.Match[str]]:
    return [row for line in PAGE.read_text(encoding="utf-8").splitlines() if (row := ROW.fullmatch(line))]


def test_every_framework_has_a_row():
    assert [row["name"] for row in read_rows()] == [name for name in read_frameworks() if name not in ("program", "environment")]


@pytest.mark.parametrize("row", read_rows(), ids=lambda row: row["name"])
def test_the_line_of_a_framework_is_the_one_of_its_project(row: re.Match[str]):
    assert f"        {row['line']}\n" in fill_project(row["name"], "code", "shop")["agent.py"]
