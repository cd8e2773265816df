"""`astuner stop`: ending exactly what we started."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from astuner.shared.processes import Lease, ProgramHandle, ProgramSpec, launch, list_programs, register_run
from astuner_devkit import until
from astuner_devkit.project import write_project
from astuner_tools.stop import _find_programs

pytestmark = pytest.mark.usefixtures("own_state")

Start = Callable[..., ProgramHandle]
SAVES = """
import signal, sys, time
from pathlib import Path
from astuner.shared.processes import register_run

with register_run("mine", Path(sys.argv[1])):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("up", flush=True)
    time.sleep(60)
"""
WAITS = "import asyncio\nclass Agent:\n    async def execute(self, workflow_task, tuner):\n        await asyncio.sleep(60)\n"


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def make(name: str, **more: Any) -> ProgramHandle:
        return launch(ProgramSpec(command=["sleep", "60"], kind="service", name=name, log=tmp_path / f"{name}.log", **more))

    return make


def names() -> list[str]:
    return [record.name for record in list_programs()]


def test_stop_ends_exactly_one_of_two(cli: Any, start: Start) -> None:
    start("web")
    start("db")
    assert cli("stop", "web").code == 0
    assert names() == ["db"]


def test_stop_takes_an_id(cli: Any, start: Start) -> None:
    start("web")
    second = start("web")
    assert cli("stop", second.record.id).code == 0
    assert len(names()) == 1


def test_a_name_of_two_programs_ends_neither(cli: Any, start: Start) -> None:
    start("web")
    start("web")
    stopped = cli("stop", "web")
    assert stopped.code == 2
    assert "that is 2 programs" in stopped.err
    assert names() == ["web", "web"]


def test_one_unknown_name_ends_nothing(cli: Any, start: Start) -> None:
    start("web")
    stopped = cli("stop", "web", "wep")
    assert stopped.code == 2
    assert "running: service 'web'" in stopped.err
    assert "Did you mean 'web'?" in stopped.err
    assert names() == ["web"]


def test_stop_all_ends_all(cli: Any, start: Start) -> None:
    start("web")
    start("db", lease=Lease(idle_s=None))
    assert cli("stop", "--all").code == 0
    assert names() == []


@pytest.mark.parametrize("arguments", [[], ["web", "--all"]])
def test_stop_takes_either_names_or_all(cli: Any, arguments: list[str]) -> None:
    assert cli("stop", *arguments).code == 2


def test_a_run_that_is_stopped_saves_its_state(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "agent.py").write_text(WAITS)
    conf = write_project(tmp_path, "astuner_devkit.judges:ExactAnswer", workflow="./agent.py:Agent")
    said = tmp_path / "said"
    with said.open("wb") as file:
        run = subprocess.Popen([sys.executable, "-m", "astuner", "run", "--conf", str(conf)], stderr=file)
    state = tmp_path / "launcher_record" / "project.debug" / "state.json"
    try:
        until(lambda: state.exists() and "running" in state.read_text())
        stopped = cli("stop", "project")
        assert "ended, interrupted" in stopped.err, state.read_text() + said.read_text()
        assert run.wait(timeout=30) == 130
    finally:
        run.kill()
        run.wait()


def test_a_second_stop_lets_the_first_one_save(cli: Any, tmp_path: Path) -> None:
    # Past the buffer of `print`, which the signal may find in use.
    counts = SAVES.replace("signal.SIG_IGN)", "lambda *_: __import__('os').write(1, b'asked\\n'))")
    run = subprocess.Popen([sys.executable, "-c", counts, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        for _ in range(2):
            assert cli("stop", "mine", "--wait", "0.2").code == 1
    finally:
        run.kill()
    assert run.stdout.read() == b"asked\n"
    run.wait()


@pytest.mark.parametrize("name", ["mine.debug", "mine", "record/mine.debug"])
def test_a_run_has_a_name_an_experiment_and_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)
    with register_run("mine.debug", tmp_path / "record" / "mine.debug", facts={"experiment_name": "mine"}) as record:
        assert _find_programs([name], list_programs()) == [record]


def test_stop_reports_a_run_that_still_saves_and_leaves_it_running(cli: Any, tmp_path: Path) -> None:
    run = subprocess.Popen([sys.executable, "-c", SAVES, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert run.stdout is not None
        assert run.stdout.readline() == b"up\n"
        stopped = cli("stop", "mine", "--wait", "0.3")
        assert (stopped.code, run.poll()) == (1, None)
        assert "still saving after 0.3 s" in stopped.err
    finally:
        run.kill()
        run.communicate()
