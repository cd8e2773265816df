"""Qwen Code plays a task folder of Harbor as the YAML says, and the tests of the task give the reward."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_stage import CONTEXT, write_tool_call

from astuner_devkit import write_project
from astuner_devkit.run_in_process import add_recorder, play

FOLDERS = Path(__file__).parents[2] / "plugins" / "astuner-agents" / "tests" / "task_folders" / "folders"
WRITE = {"command": "echo 'Hello, world!' > hello.txt", "description": "Write it.", "is_background": False}
COMMAND = "astuner_agents:Command"


def test_qwen_code_solves_a_task_of_harbor(
    program: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(program("qwen_code").parent), prepend=os.pathsep)
    settings = {
        "task_reader": {"type": "harbor", "harbor": {"training": {"path": str(FOLDERS), "include": ["hello-file"]}}},
        "agent": {"preset": "qwen_code"},
        "data": {"max_prompt_length": CONTEXT - 10_000, "max_response_length": 4000},
        "rollout": {
            "name": "scripted",
            "scripted": {"replies": [write_tool_call("run_shell_command", WRITE), "Done."]},
            "max_model_len": CONTEXT,
            "num_repeat": 1,
        },
    }
    [episode] = play(write_project(tmp_path, workflow=COMMAND, settings=add_recorder(settings))).episodes
    assert (episode.reward, episode.failures) == (1.0, ())
    assert sum(sample.trained for sample in episode.samples) == sum(len(call.output_ids) for call in episode.calls)
