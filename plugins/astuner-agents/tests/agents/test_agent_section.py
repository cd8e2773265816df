"""The section `agent`, checked before anything starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError
from astuner.settings.config.loading import load_config
from astuner.settings.planning.plan import plan_run
from astuner_agents.presets import read_presets, settle_program
from astuner_devkit import write_project

COMMAND = "astuner_agents:Command"


def write(directory: Path, agent: dict[str, Any], workflow: str = COMMAND, **rollout: Any) -> Path:
    (directory / "agent.py").write_text("class Other:\n    async def execute(self, workflow_task, tuner):\n        pass\n")
    return write_project(directory, workflow=workflow, settings={"agent": agent, "rollout": rollout})


def problems(directory: Path, agent: dict[str, Any], **given: Any) -> list[str]:
    with pytest.raises(ConfigError) as refused:
        plan_run(write(directory, agent, **given))
    return [str(one).removeprefix(f"{directory}/") for one in refused.value.problems]


@pytest.mark.parametrize("workflow", [COMMAND, "astuner_agents->Command"])
def test_a_command_or_a_preset_is_needed(tmp_path: Path, workflow: str) -> None:
    [found] = problems(tmp_path, {"timeout_s": 3.0}, workflow=workflow)
    assert re.fullmatch(
        r"project.yaml:\d+: astuner.agent.command: the workflow astuner_agents:Command runs a program, and none .*", found
    )


def test_a_preset_that_does_not_exist_is_named_with_its_line(tmp_path: Path) -> None:
    [found] = problems(tmp_path, {"preset": "qwen-code"})
    place, _, message = found.partition(": ")
    lines = (tmp_path / "project.yaml").read_text().splitlines()
    assert lines[int(place.removeprefix("project.yaml:")) - 1].split() == ["preset:", "qwen-code"]
    assert message == (
        "astuner.agent.preset: there is no preset 'qwen-code'; there are: claude_code, codex, qwen_code, opencode, "
        "gemini_cli, pi. Did you mean 'qwen_code'?"
    )


def test_files_and_copies_are_checked(tmp_path: Path) -> None:
    agent = {"command": "x", "copy": {"a.py": "./missing.py", "../b": "."}, "files": {"/etc/x": ""}, "prompt_file": "../T.md"}
    words = (
        "astuner.agent.files./etc/x: it must be a path in the sandbox",
        "astuner.agent.copy.../b: it must be a path in the sandbox",
        "astuner.agent.copy.a.py: there is no file or directory",
        "astuner.agent.prompt_file: it must be a path in the working directory",
    )
    found = problems(tmp_path, agent)
    assert [word for word in words if not any(word in text for text in found)] == []
    assert len(found) == 4


def test_mistakes_are_reported_with_those_elsewhere_and_before_the_users_code_is_imported(tmp_path: Path) -> None:
    conf = write(tmp_path, {"preset": "qwen-code", "timeout_s": -1}, isolation="process")
    (tmp_path / "judge.py").write_text("raise SystemExit('imported')\n\n\nclass Judge:\n    pass\n")
    with pytest.raises(ConfigError) as refused:
        plan_run(conf, ["task_judge.judge_protocol=./judge.py:Judge", "data.max_response_length=1000000"])
    keys = {one.key for one in refused.value.problems}
    assert keys == {
        f"astuner.{key}" for key in ("agent.preset", "agent.timeout_s", "rollout.isolation", "data.max_response_length")
    }


def test_a_value_of_the_wrong_type_is_one_mistake(tmp_path: Path) -> None:
    [found] = problems(tmp_path, {"preset": 3})
    assert "astuner.agent.preset" in found


def test_a_process_of_its_own_is_refused(tmp_path: Path) -> None:
    [found] = problems(tmp_path, {"command": "x"}, isolation="process")
    assert "astuner.rollout.isolation" in found


def test_the_section_without_the_workflow_is_a_notice(tmp_path: Path) -> None:
    plan = plan_run(write(tmp_path, {"command": "x"}, workflow="./agent.py:Other"))
    assert [notice for notice in plan.notices if notice.startswith("agent: without effect")]


def test_keys_win_over_the_preset(tmp_path: Path) -> None:
    agent = {"preset": "codex", "env": {"CODEX_HOME": "/x", "MORE": "1"}, "files": {"a": "b"}, "prompt": "stdin"}
    program = settle_program(load_config(write(tmp_path, agent)).config)
    preset = read_presets()["codex"]
    assert program.command == preset.command
    assert program.prompt == "stdin"
    assert program.env == {**preset.env, "CODEX_HOME": "/x", "MORE": "1"}
    assert set(program.files) == {"a", "~/.codex/config.toml"}
