"""A run from Python is the run of the command, bit for bit; runs of one process do not change each other or the process."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from harness import SMALL, Cli
from runs_on_disk import metric_rows, record, weights_digest

import astuner

OVERRIDES = [
    *(word.removeprefix("--set=") for word in SMALL if word.startswith("--set=")),
    "trainer_common.total_training_steps=2",
    "trainer_common.test_freq=2",
]


@pytest.fixture
def make_project(quickstart: Path, tmp_path: Path) -> Any:
    def make(name: str) -> Path:
        home = tmp_path / name
        shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
        (home / "model").symlink_to(quickstart / "model")
        return home

    return make


def read_settings() -> dict[str, Any]:
    import torch
    from transformers.utils import logging

    return {
        "threads": torch.get_num_threads(),
        "random": torch.get_rng_state().tolist(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "bars": logging.is_progress_bar_enabled(),
    }


def test_two_runs_in_one_process_are_those_of_the_command(make_project: Any, separate_cli: Cli, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("torch")
    by_command = make_project("command")
    more = [f"--set={item}" for item in OVERRIDES]
    ran = separate_cli("run", "--conf", "tune.yaml", "--backbone=local", *more, cwd=by_command)
    assert ran.returncode == 0, ran.stderr

    first, second = make_project("first"), make_project("second")
    before = read_settings()
    monkeypatch.chdir(first)
    astuner.run("tune.yaml", [*OVERRIDES, "rollout.temperature=0.7", "rollout.local.threads=3"], backbone="local")
    assert read_settings() == before

    async def cell() -> astuner.Run:
        return astuner.run("tune.yaml", OVERRIDES, backbone="local")

    monkeypatch.chdir(second)
    run = asyncio.run(cell())
    assert read_settings() == before
    assert run.path == record(second)
    assert metric_rows(record(second)) == metric_rows(record(by_command))
    assert weights_digest(record(second), 2) == weights_digest(record(by_command), 2)
    assert metric_rows(record(first)) != metric_rows(record(by_command))
    checked = astuner.evaluate("tune.yaml", run.path / "checkpoints/step_2", OVERRIDES, backbone="local")
    scores = [row["val/reward/mean"] for row in (*checked.read_rows()[-1:], *run.read_rows()[-1:])]
    assert scores[0] == scores[1]
