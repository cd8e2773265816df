from __future__ import annotations

from pathlib import Path

import pytest

from astuner.shared.processes.gpus import VISIBLE, gpu_count


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver that lists four GPUs."""
    command = tmp_path / "nvidia-smi"
    command.write_text('#!/bin/sh\nfor n in 0 1 2 3; do echo "GPU $n: NVIDIA (UUID: GPU-$n)"; done\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv(VISIBLE, raising=False)
    return command


@pytest.mark.parametrize(("visible", "count"), [(None, 4), ("0,2", 2), ("", 0), ("-1", 0), ("0,1,2,3,4,5", 4)])
def test_what_is_hidden_is_not_counted(driver: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, count: int) -> None:
    if visible is not None:
        monkeypatch.setenv(VISIBLE, visible)
    assert gpu_count() == count


def test_without_a_driver_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_count() == 0


def test_a_driver_that_does_not_answer_has_none(driver: Path) -> None:
    driver.write_text("#!/bin/sh\nexit 9\n")
    assert gpu_count() == 0
