"""A run that is moved, copied or deleted, and clocks that jump."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from faults import delete
from moments import MOMENTS
from runs_on_disk import record
from supervised_run import Process, Supervisor, send
from test_faults_at_moments import SETTINGS, check_end, check_same_run, supervisor, undisturbed

__all__ = ["supervisor", "undisturbed"]

KILL = send(9)


def test_a_project_that_is_moved_is_resumed(supervisor: Supervisor, undisturbed: Path) -> None:
    ended = supervisor.run(*SETTINGS, moment=MOMENTS["third_step"], strike=KILL)
    check_end(ended)
    moved = supervisor.project.rename(supervisor.project.with_name("elsewhere"))
    resumed = Supervisor(supervisor.server, moved).run(*SETTINGS, "--resume")
    check_end(resumed)
    assert resumed.code == 0, resumed.said
    check_same_run(record(moved), undisturbed)


def test_a_copy_of_a_project_is_resumed_without_the_original(supervisor: Supervisor, undisturbed: Path, tmp_path: Path) -> None:
    check_end(supervisor.run(*SETTINGS, moment=MOMENTS["checkpoint_written"], strike=KILL))
    copy = tmp_path / "copy" / "deeper"
    shutil.copytree(supervisor.project, copy)
    shutil.rmtree(supervisor.project)
    resumed = Supervisor(supervisor.server, copy).run(*SETTINGS, "--resume")
    check_end(resumed)
    assert resumed.code == 0, resumed.said
    check_same_run(record(copy), undisturbed)


def test_a_run_directory_that_is_deleted_ends_the_run_with_the_truth(supervisor: Supervisor) -> None:
    ended = supervisor.run(*SETTINGS, moment=MOMENTS["second_step"], strike=delete("")(supervisor.directory))
    check_end(ended)
    assert ended.code == 1, ended.said
    assert "Nothing that was complete is lost" not in ended.said
    assert "launcher_record/calculator" in ended.said


def test_a_store_that_is_deleted_is_noticed(supervisor: Supervisor) -> None:
    ended = supervisor.run(*SETTINGS, moment=MOMENTS["second_step"], strike=delete("episodes")(supervisor.directory))
    check_end(ended)
    assert "episodes" in ended.said


@pytest.fixture
def faketime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file whose content shifts the clocks of the processes that are started from now on."""
    import libfaketime

    shift = tmp_path / "faketime"
    shift.write_text("+0\n")
    monkeypatch.setenv("LD_PRELOAD", os.fspath(Path(libfaketime.__file__).parent / "vendor/libfaketime/src/libfaketime.so.1"))
    monkeypatch.setenv("FAKETIME_TIMESTAMP_FILE", os.fspath(shift))
    monkeypatch.setenv("FAKETIME_NO_CACHE", "1")
    # What waits for a moment of the monotonic clock is not to be disturbed: a jump of the wall clock leaves it alone.
    monkeypatch.setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1")
    return shift


@pytest.mark.parametrize("jump", ["-3700", "+3456000"])
def test_a_clock_that_jumps_changes_nothing(supervisor: Supervisor, undisturbed: Path, faketime: Path, jump: str) -> None:
    def strike(process: Process) -> None:
        faketime.write_text(f"{jump}\n")

    ended = supervisor.run(*SETTINGS, moment=MOMENTS["second_step"], strike=strike, alone=(sys.executable,))
    assert ended.reached
    check_end(ended)
    assert ended.code == 0, ended.said
    check_same_run(supervisor.directory, undisturbed)
