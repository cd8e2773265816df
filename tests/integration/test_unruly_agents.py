"""Whole runs with agents that misbehave: they end when they are to end, say so, and leave nothing running."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from harness import environment
from python_server import ForkedPython, PythonServer

from astuner.runs.store.episode_store import SPLITS, read_episodes

SETTINGS = (
    "--backbone=debug",
    "--set=rollout.name=scripted",
    '--set=rollout.scripted.replies=["4"]',
    "--set=debug.debug_first_n_tasks=1",
    "--set=rollout.num_repeat=4",
    "--set=rollout.failure_budget=0.9",
    f"--set=rollout.user_workflow={Path(__file__).with_name('unruly_agents.py')}:Agent",
)
ENDS_S = 120

Start = Callable[..., ForkedPython]


@pytest.fixture
def start(python_server: PythonServer, project: Path) -> Start:
    def start(what: str, *settings: str) -> ForkedPython:
        command = ["-m", "astuner", "run", "--conf", "tune.yaml", *SETTINGS, *settings]
        env = environment({"UNRULY": what, "ASTUNER_STATE_DIR": str(project / "state")})
        with (project / "log.txt").open("wb") as log:
            return python_server.start(command, cwd=project, env=env, output=(log, log), start_new_session=True)

    return start


def read_log(project: Path) -> str:
    return " ".join((project / "log.txt").read_text().split())


def read_status(project: Path) -> str:
    found: str = json.loads((project / "launcher_record/calculator.debug/state.json").read_text())["status"]
    return found


def wait_for(project: Path, process: ForkedPython, text: str) -> None:
    until = time.monotonic() + ENDS_S
    while text not in read_log(project) and process.poll() is None:
        assert time.monotonic() < until, read_log(project)
        time.sleep(0.05)


def list_stores(project: Path) -> list[Path]:
    return list((project / "launcher_record/calculator.debug/episodes").glob("*.jsonl"))


def wait_for_episodes(project: Path, process: ForkedPython, count: int) -> None:
    until = time.monotonic() + ENDS_S
    while sum(path.read_bytes().count(b"\n") for path in list_stores(project)) < count and process.poll() is None:
        assert time.monotonic() < until, read_log(project)
        time.sleep(0.05)


def list_sleeping() -> list[list[str]]:
    found = (process.info["cmdline"] for process in psutil.process_iter(["cmdline"]))
    return [command for command in found if command in (["sleep", "1597"], ["sleep", "1598"])]


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("leaves processes", "users' code has left processes behind, which were ended:"),
        ("leaves threads", "users' code has left 3 threads running, which the end of the run ends: Thread-"),
        ("leaves a call in a thread", "users' code has left 1 threads running"),
        ("exits", "os._exit(0) would have ended the process of the run"),
        ("cancels all", "CancelledError: what it awaits was cancelled, and not by the run"),
    ],
)
def test_a_run_ends_well_and_says_what_its_agent_did(start: Start, project: Path, what: str, says: str) -> None:
    process = start(what)
    assert process.wait(ENDS_S) == 0, read_log(project)
    assert read_status(project) == "finished"
    assert says in read_log(project)
    assert list_sleeping() == []


@pytest.mark.parametrize("isolation", ["async", "thread", "process"])
def test_a_signal_ends_a_run_whose_agent_swallows_its_cancellation(start: Start, project: Path, isolation: str) -> None:
    process = start("swallows", f"--set=rollout.isolation={isolation}")
    wait_for_episodes(project, process, 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(ENDS_S) == 130, read_log(project)
    assert read_status(project) == "interrupted"
    # What was finished is kept, and the episode that was abandoned is played when the run goes on.
    store = project / "launcher_record/calculator.debug/episodes"
    assert {episode.repeat for split in SPLITS for episode in read_episodes(store, split)} == {1, 2, 3}


@pytest.mark.parametrize("isolation", ["async", "thread"])
def test_one_signal_ends_a_run_whose_agent_blocks(start: Start, project: Path, isolation: str) -> None:
    process = start("blocks", f"--set=rollout.isolation={isolation}", "--set=debug.debug_max_parallel=4")
    if isolation == "async":
        wait_for(project, process, "held up all other episodes")
    else:
        wait_for_episodes(project, process, 3)
    process.send_signal(signal.SIGTERM)
    assert process.wait(ENDS_S) == 130, read_log(project)
    assert read_status(project) == "interrupted"
    if isolation == "async":
        assert re.search(r"users' code blocks the event loop at \S*unruly_agents\.py:", read_log(project))


@pytest.mark.parametrize("isolation", ["async", "thread", "process"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_a_run_at_once_that_is_stopping(
    start: Start, project: Path, isolation: str, number: signal.Signals
) -> None:
    process = start("swallows", f"--set=rollout.isolation={isolation}")
    wait_for_episodes(project, process, 3)
    process.send_signal(number)
    wait_for(project, process, "a second signal ends the run at once")
    process.send_signal(number)
    assert process.wait(ENDS_S) == 130, read_log(project)
    assert read_status(project) == "interrupted"
    assert "Traceback" not in read_log(project)
    # The run gives an agent a while to end, and says when that has passed; the second signal does not wait for it.
    assert "was abandoned" not in read_log(project)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_further_signals_show_no_traceback(start: Start, project: Path, number: signal.Signals) -> None:
    process = start("swallows")
    wait_for_episodes(project, process, 3)
    process.send_signal(number)
    wait_for(project, process, "a second signal ends the run at once")
    for _ in range(20):
        if process.poll() is None:
            process.send_signal(number)
        time.sleep(0.02)
    # One that comes when all is saved ends the process as the system does.
    assert process.wait(ENDS_S) in (130, -number), read_log(project)
    # A signal that comes while a weak reference is removed is shown by Python itself.
    shown = re.sub(r"Exception ignored in.*?(?:Keyboard|\bUser)Interrupt: ?", "", read_log(project))
    assert "Traceback" not in shown


def test_one_signal_ends_a_run_whose_agent_blocks_and_catches_everything(start: Start, project: Path) -> None:
    process = start("blocks for ever")
    wait_for(project, process, "held up all other episodes")
    process.send_signal(signal.SIGTERM)
    assert process.wait(ENDS_S) == 130, read_log(project)
    assert read_status(project) == "interrupted"
    assert re.search(r"its main thread is blocked at \S*unruly_agents\.py:", read_log(project))
    assert re.search(r"(?m)is stored; continue with: astuner run --conf .* --resume$", read_log(project))
    assert not list((project / "state").rglob("*.json"))


def test_a_crash_of_native_code_names_the_line_and_the_next_command_says_that_it_happened(start: Start, project: Path) -> None:
    process = start("crashes")
    assert process.wait(ENDS_S) == -signal.SIGABRT
    assert "Fatal Python error: Aborted" in read_log(project)
    assert "unruly_agents.py" in read_log(project)
    again = start("nothing", "--resume")
    assert again.wait(ENDS_S) == 0, read_log(project)
    assert "the last attempt was killed" in read_log(project)
