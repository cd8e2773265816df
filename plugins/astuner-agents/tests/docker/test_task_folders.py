"""Task folders of Harbor in containers: each has its image, the agent works in it, and the tests of the task give the reward."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from machine_image import IMAGE

from astuner_devkit import write_project
from astuner_devkit.run_in_process import PlayedRun, add_recorder, play

FOLDERS = Path(__file__).parents[1] / "task_folders"
NAMES = ("hello-file", "count-words")
PlayFolders = Callable[..., PlayedRun]
pytestmark = pytest.mark.usefixtures("any_daemon")


@pytest.fixture
def play_folders(tmp_path: Path) -> PlayFolders:
    """Plays two tasks, whose scripts need no shell but that of the image."""
    for name in NAMES:
        folder = Path(shutil.copytree(FOLDERS / "folders" / name, tmp_path / "tasks" / name))
        for script in (*folder.glob("tests/*.sh"), *folder.glob("solution/*.sh")):
            script.write_text(script.read_text().replace("#!/bin/bash", "#!/bin/sh"))
        dockerfile = folder / "environment" / "Dockerfile"
        lines = dockerfile.read_text().splitlines()
        dockerfile.write_text("\n".join([f"FROM {IMAGE}", *lines[1:]]))

    def run(workflow: str) -> PlayedRun:
        settings = {
            "task_reader": {"type": "harbor", "harbor": {"training": {"path": str(tmp_path / "tasks")}}},
            "agent": {
                "command": ["python3", "{home}/agent.py", "{query}"],
                "copy": {"~/agent.py": str(FOLDERS / "shell_agent.py")},
            },
            "sandbox": {"type": "docker", "docker": {"warm": 0}},
            "rollout": {
                "name": "scripted",
                "scripted": {"replies": ["echo 'Hello, world!' > hello.txt; ls /tests /solution", "done"]},
                "num_repeat": 1,
                "failure_budget": 1.0,
                "max_retries": 0,
                "user_workflow": workflow,
            },
            "debug": {"debug_first_n_tasks": 2, "debug_max_parallel": 1},
        }
        return play(write_project(tmp_path / "project", workflow=workflow, settings=add_recorder(settings)))

    return run


def get_rewards(played: PlayedRun) -> dict[str, float | None]:
    return {episode.task.task_id: episode.reward for episode in played.episodes}


def test_the_tests_of_a_task_give_the_reward_and_the_agent_does_not_see_them(play_folders: PlayFolders) -> None:
    played = play_folders("astuner_agents:Command")
    assert get_rewards(played) == {"count-words": 0.0, "hello-file": 1.0}
    for episode in played.episodes:
        seen = str(episode.calls[1].messages[-1]["content"])
        assert "test.sh" not in seen
        assert "solve.sh" not in seen


def test_every_solution_has_a_reward_of_one(play_folders: PlayFolders) -> None:
    assert get_rewards(play_folders("astuner_agents.harbor:Oracle")) == dict.fromkeys(NAMES, 1.0)
