"""Runs with one process: nothing of the package is imported, and where it is missing they say what it would give."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner_devkit import PlayedRun

DISABLED = {"plugins": {"disabled": ["astuner-rollout-workers"]}}
ONE_TASK = """
import sys
from pathlib import Path

import astuner
from astuner_devkit.project import write_project

astuner.run(write_project(Path(sys.argv[1])))
print(*sys.modules, file=sys.stderr)
"""


@pytest.fixture
def many_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner.episodes.rollout.group_runner.count_cores", lambda: 16)


def list_offers(played: PlayedRun) -> list[str]:
    return [text for text in played.notices if "rollout workers would pay" in text]


def play_auto(world: Callable[..., PlayedRun], most: int, **more: Any) -> PlayedRun:
    return world("auto", engine="SharedSeededEngine", more={"debug": {"debug_max_parallel": most}, **more})


@pytest.mark.usefixtures("many_cores")
def test_auto_says_once_what_the_package_would_give(world: Callable[..., PlayedRun]) -> None:
    (offer,) = list_offers(play_auto(world, 64, **DISABLED))
    assert offer.startswith(
        "one process plays the episodes: 16 cores, 64 concurrent episodes: 2 rollout workers would pay; they "
    )


@pytest.mark.usefixtures("many_cores")
def test_nothing_is_said_where_one_process_plays_anyway(world: Callable[..., PlayedRun]) -> None:
    assert list_offers(play_auto(world, 63, **DISABLED)) == []


@pytest.mark.usefixtures("many_cores")
def test_auto_plays_with_several_where_the_package_is_installed(world: Callable[..., PlayedRun]) -> None:
    played = play_auto(world, 64)
    assert list_offers(played) == []
    assert len({episode.output.metadata["pid"] for episode in played.episodes if episode.output is not None}) == 2


def test_a_run_of_one_process_imports_nothing_of_it(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ONE_TASK, str(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    modules = done.stderr.splitlines()[-1].split()
    assert "astuner.episodes.rollout.group_runner" in modules
    assert [name for name in modules if name.startswith("astuner_rollout_workers")] == []
