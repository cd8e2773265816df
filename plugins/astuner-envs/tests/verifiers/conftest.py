"""Environments of `verifiers`, importable as installed ones are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit import write_project
from astuner_devkit.run_in_process import PlayedRun, add_recorder, play

WORLDS = Path(__file__).with_name("worlds")
LOCAL = {"runtime": {"type": "subprocess"}}


@pytest.fixture(autouse=True)
def _worlds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("verifiers.v1", reason="comes with the extra verifiers")
    monkeypatch.syspath_prepend(str(WORLDS))
    # Neither the keys nor the settings of whoever runs the tests.
    monkeypatch.delenv("PRIME_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


Play = Callable[..., PlayedRun]


@pytest.fixture
def play_world(tmp_path: Path) -> Play:
    """Play the tasks of an environment once or more, with a model that says the replies of the script in turn."""

    def run(env: dict[str, Any], replies: list[str], *, repeat: int = 2, reader: Any = None, **rollout: Any) -> PlayedRun:
        settings = {
            "task_reader": {"type": "verifiers", "verifiers": {"env": env, **(reader or {})}},
            "rollout": {
                "name": "scripted",
                "scripted": {"replies": replies},
                "num_repeat": repeat,
                "user_workflow": "astuner_envs.verifiers:VerifiersWorkflow",
                "failure_budget": 1.0,
                **rollout,
            },
            "debug": {"debug_first_n_tasks": 2, "debug_max_parallel": 2},
        }
        return play(write_project(tmp_path, workflow=settings["rollout"]["user_workflow"], settings=add_recorder(settings)))

    return run
