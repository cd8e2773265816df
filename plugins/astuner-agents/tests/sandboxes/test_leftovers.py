"""Directories that killed runs have left, in the directory for temporary files that all runs share."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import psutil
import pytest

from astuner.contract.protocols import SandboxSpec
from astuner_agents.sandboxes.local import LocalSandboxes

NO_PROCESS = 2**31 - 1


def open_one(directory: Path) -> None:
    async def play() -> None:
        sandboxes = LocalSandboxes(LocalSandboxes.Options(directory=str(directory), warm=0))
        await (await sandboxes.open(SandboxSpec(episode_id="e"))).close()
        await sandboxes.close()

    asyncio.run(play())


def test_the_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    (tmp_path / f"astuner-sandbox-{NO_PROCESS}-a" / "1").mkdir(parents=True)
    open_one(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_another_run_may_remove_them_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = tmp_path / f"astuner-sandbox-{NO_PROCESS}-a"
    left.mkdir()
    exists = psutil.pid_exists

    def remove_and_look(number: int) -> bool:
        shutil.rmtree(left, ignore_errors=True)
        return bool(exists(number))

    monkeypatch.setattr(psutil, "pid_exists", remove_and_look)
    open_one(tmp_path)
