"""Plays task folders as a run does, with an agent that runs what a scripted model says."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import PluginError
from astuner_agents.sandboxes.bubblewrap import BubblewrapSandboxes
from astuner_devkit import write_project
from astuner_devkit.run_in_process import PlayedRun, add_recorder, play

AGENT = Path(__file__).parents[1] / "shell_agent.py"
FOLDERS = Path(__file__).parents[1] / "folders"
COMMAND = "astuner_agents:Command"
ORACLE = "astuner_agents.harbor:Oracle"
PlayFolders = Callable[..., PlayedRun]


def can_use_bubblewrap() -> bool:
    try:
        BubblewrapSandboxes(BubblewrapSandboxes.Options()).check()
    except PluginError:
        return False
    return True


@pytest.fixture(params=["local", "bubblewrap"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and not can_use_bubblewrap():
        pytest.skip("bubblewrap cannot be used here")
    return str(request.param)


@pytest.fixture
def tasks(tmp_path: Path) -> Path:
    """A copy of the folders, to be changed."""
    return Path(shutil.copytree(FOLDERS, tmp_path / "tasks"))


@pytest.fixture
def play_folders(tmp_path: Path) -> PlayFolders:
    """Play the folders of a directory once; `says` are the commands of the agent's model, before it says that it is done."""
    homes = (tmp_path / f"project-{number}" for number in count())

    def run(
        path: Path,
        *names: str,
        says: Sequence[str] = (),
        kind: str = "local",
        workflow: str = COMMAND,
        agent: Mapping[str, Any] | None = None,
        sandbox: Mapping[str, Any] | None = None,
    ) -> PlayedRun:
        # Plugins of pytest that are installed from a clone are not shown in a sandbox.
        options = {"env": {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, **(sandbox or {})}
        settings = {
            "task_reader": {"type": "harbor", "harbor": {"training": {"path": str(path), "include": list(names)}}},
            "agent": {
                "command": ["python3", "{home}/agent.py", "{query}"],
                "copy": {"~/agent.py": str(AGENT)},
                **(agent or {}),
            },
            "sandbox": {"type": kind, kind: options},
            "rollout": {
                "name": "scripted",
                "scripted": {"replies": [*says, "done"]},
                "num_repeat": 1,
                "failure_budget": 1.0,
                "max_retries": 0,
                "user_workflow": workflow,
            },
            "debug": {"debug_first_n_tasks": 20, "debug_max_parallel": 1},
        }
        return play(write_project(next(homes), workflow=workflow, settings=add_recorder(settings)))

    return run
