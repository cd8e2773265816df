"""The section `agent`, checked before anything starts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from astuner.settings.config.agent_presets import read_presets, settle_program
from astuner.settings.config.loading import examine_config

COMMAND = "astuner_agents:Command"


def examine(directory: Path, agent: dict[str, Any] | None, workflow: str = COMMAND, **rollout: Any) -> Any:
    section = {"model": {"path": "some/model"}, "rollout": {"user_workflow": workflow, **rollout}}
    if agent is not None:
        section["agent"] = agent
    (directory / "run.yaml").write_text(yaml.safe_dump({"astuner": section}, sort_keys=False))
    return examine_config(directory / "run.yaml")


def problems(directory: Path, agent: dict[str, Any] | None, **given: Any) -> list[str]:
    return [str(one).removeprefix(f"{directory}/") for one in examine(directory, agent, **given).problems]


@pytest.mark.parametrize("workflow", [COMMAND, "astuner_agents->Command"])
def test_a_command_or_a_preset_is_needed(tmp_path: Path, workflow: str) -> None:
    [found] = problems(tmp_path, {"timeout_s": 3.0}, workflow=workflow)
    assert found.startswith("run.yaml:6: astuner.agent.command: the workflow astuner_agents:Command runs a program, and none")


def test_a_preset_that_does_not_exist_is_named_with_its_line(tmp_path: Path) -> None:
    [found] = problems(tmp_path, {"preset": "qwen-code"})
    assert found == (
        "run.yaml:7: astuner.agent.preset: there is no preset 'qwen-code'; there are: claude_code, codex, qwen_code, opencode, "
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


def test_a_process_of_its_own_is_refused(tmp_path: Path) -> None:
    [found] = problems(tmp_path, {"command": "x"}, isolation="process")
    assert "astuner.rollout.isolation" in found


def test_the_section_without_the_workflow_is_a_notice(tmp_path: Path) -> None:
    loaded = examine(tmp_path, {"command": "x"}, workflow="m:W")
    assert [notice for notice in loaded.notices if notice.startswith("agent: without effect")]


def test_keys_win_over_the_preset(tmp_path: Path) -> None:
    agent = {"preset": "codex", "env": {"CODEX_HOME": "/x", "MORE": "1"}, "files": {"a": "b"}, "prompt": "stdin"}
    program = settle_program(examine(tmp_path, agent).config.agent)
    preset = read_presets()["codex"]
    assert program.command == preset.command
    assert program.prompt == "stdin"
    assert program.env == {**preset.env, "CODEX_HOME": "/x", "MORE": "1"}
    assert set(program.files) == {"a", "~/.codex/config.toml"}
