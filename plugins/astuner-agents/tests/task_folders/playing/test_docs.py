"""The configuration in `docs/environments.md` is played, with a program in the place of the preset's."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from astuner_devkit import write_project
from astuner_devkit.run_in_process import add_recorder, play

REPOSITORY = Path(__file__).parents[5]
AGENT = Path(__file__).parents[1] / "shell_agent.py"
HEADING = "## Harbor and Terminal-Bench\n"


def read_section() -> str:
    return (REPOSITORY / "docs" / "environments.md").read_text(encoding="utf-8").split(HEADING)[1].split("\n## ")[0]


def test_the_configuration_is_played_with_its_preset_and_the_oracle(
    tasks: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    [text] = re.findall(r"^```yaml\n(.*?)^```$", read_section(), re.MULTILINE | re.DOTALL)
    settings = yaml.safe_load(text)["astuner"]
    assert settings["sandbox"] == {"type": "bubblewrap"}
    programs = tmp_path / "programs"
    programs.mkdir()
    # It is started as the preset starts Claude Code, whose last argument is the task.
    agent = AGENT.read_text().replace("sys.argv[1]", "sys.argv[-1]")
    (programs / "claude").write_text(f"#!{sys.executable}\n{agent}")
    (programs / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")
    shown = {"read_only": [str(programs)]} if kind == "bubblewrap" else {}
    env = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    settings["sandbox"] = {"type": kind, kind: {"env": env, **shown}}
    settings["task_reader"]["harbor"]["training"]["path"] = str(tasks)
    settings["rollout"] |= {
        "name": "scripted",
        "scripted": {"replies": ["echo 'Hello, world!' > hello.txt", "done"]},
        "num_repeat": 1,
    }
    settings["debug"] = {"debug_first_n_tasks": 4, "debug_max_parallel": 1}
    conf = write_project(tmp_path / "project", workflow="astuner_agents:Command", settings=add_recorder(settings))
    expected = {"count-words": 0.0, "fix-mean": 0.0, "hello-file": 1.0, "old-hello": 1.0}
    assert {episode.task.task_id: episode.reward for episode in play(conf).episodes} == expected
    [override] = re.findall(r"--set (rollout\.user_workflow=\S+)", read_section())
    solved = play(conf, overrides=[override, "experiment_name=oracle"]).episodes
    assert {episode.task.task_id: episode.reward for episode in solved} == dict.fromkeys(expected, 1.0)
