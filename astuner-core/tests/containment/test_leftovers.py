from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import psutil
import pytest

from astuner.episodes.containment.leftovers import end_leftovers
from astuner.shared.processes.process_members import MARK, is_living
from astuner_devkit.waiting import until

# The inner `sleep` has an empty environment, as a process has that overwrites its own with a title.
PARENT_AND_CHILD = ("sh", "-c", "env -i sleep 600 & wait")


@pytest.fixture
def started() -> Iterator[list[psutil.Process]]:
    """Processes to be ended after the test."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        if is_living(process):
            process.kill()


def start(started: list[psutil.Process], **variables: str) -> None:
    parent = psutil.Process(subprocess.Popen(PARENT_AND_CHILD, env={**os.environ, **variables}).pid)
    started.append(parent)
    until(lambda: any(child.name() == "sleep" for child in parent.children()))
    started.extend(parent.children())


def test_what_users_code_started_is_ended_and_named(started: list[psutil.Process]) -> None:
    notices: list[str] = []
    with end_leftovers(notices.append):
        start(started)
    assert [is_living(process) for process in started] == [False, False]
    assert "users' code has left processes behind, which were ended: " in notices[0]


def test_a_program_that_astuner_started_stays_with_all_its_processes(started: list[psutil.Process]) -> None:
    notices: list[str] = []
    with end_leftovers(notices.append):
        start(started, **{MARK: "a-server-that-is-kept"})
    assert [is_living(process) for process in started] == [True, True]
    assert notices == []


def test_what_a_process_of_the_run_starts_meanwhile_stays(started: list[psutil.Process]) -> None:
    notices: list[str] = []
    logger = subprocess.Popen(["sh", "-c", "read order; sleep 600 & wait"], stdin=subprocess.PIPE, text=True)
    started.append(psutil.Process(logger.pid))
    with end_leftovers(notices.append):
        assert logger.stdin is not None
        print("start", file=logger.stdin, flush=True)
        until(started[0].children)
        started.extend(started[0].children())
    assert [is_living(process) for process in started] == [True, True]
    assert notices == []
