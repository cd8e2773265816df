"""A stop waits for what takes longer than any of its limits: nothing is lost, and nobody's code is blamed."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import REPOSITORY, environment
from python_server import ForkedPython, PythonServer
from runs_on_disk import metric_rows, record, times_generated

ENDS_S = 240
"""Under load."""
HERE = Path(__file__).parent
SETTINGS = (
    "backbone=./slow_backbone.py:SlowBackbone",
    "rollout.user_workflow=./slow_backbone.py:Agent",
    "rollout.name=scripted",
    'rollout.scripted.replies=["4"]',
    "trainer_common.save_freq=-1",
    "trainer_common.total_training_steps=3",
)
COMMAND = ["-m", "astuner", "run", "--conf", "tune.yaml", *(f"--set={one}" for one in SETTINGS)]
SCRIPT = f"import astuner; astuner.run('tune.yaml', {list(SETTINGS)!r})"

Start = Callable[..., ForkedPython]


@pytest.fixture
def start(python_server: PythonServer, tmp_path: Path) -> Start:
    shutil.copytree(HERE / "stored_runs" / "project", tmp_path / "project")
    for file in (HERE / "slow_backbone.py", REPOSITORY / "tests" / "support" / "serving_backbone.py"):
        shutil.copy(file, tmp_path / "project")

    def start(slow: str, *more: str, command: list[str] = COMMAND) -> ForkedPython:
        with (tmp_path / "log.txt").open("wb") as log:
            env = environment({"SLOW": slow, "ASTUNER_STATE_DIR": str(tmp_path / "state")})
            return python_server.start([*command, *more], cwd=tmp_path / "project", env=env, output=(log, log))

    return start


def stop_inside(process: ForkedPython, number: signal.Signals, place: Path) -> str:
    """Send one signal while the run is at what is slow, and return its log."""
    until = time.monotonic() + ENDS_S
    while not (place / "project" / "slow").exists():
        assert process.poll() is None, (place / "log.txt").read_text()
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(number)
    code = process.wait(ENDS_S)
    log = (place / "log.txt").read_text()
    assert code == 130, log
    return log


@pytest.mark.parametrize(
    ("slow", "number", "saved"),
    [
        ("start", signal.SIGTERM, []),
        ("update", signal.SIGINT, ["step_2"]),
        ("new weights", signal.SIGTERM, ["step_2"]),
        ("validation", signal.SIGINT, ["step_2"]),
        ("save", signal.SIGTERM, ["step_2"]),
    ],
)
def test_one_signal_loses_nothing_that_is_slow(
    start: Start, tmp_path: Path, slow: str, number: signal.Signals, saved: list[str]
) -> None:
    more = ["--set=trainer_common.save_freq=2"] if slow == "save" else []
    log = stop_inside(start(slow, *more), number, tmp_path)
    assert "stopping: an update or a save under way is finished" in log
    assert "users' code" not in log
    run = record(tmp_path / "project", "stored")
    assert [path.name for path in (run / "checkpoints").iterdir()] == saved
    assert start("", *more, "--resume").wait(ENDS_S) == 0, (tmp_path / "log.txt").read_text()
    kinds = [(row["step"], row["kind"]) for row in metric_rows(run)]
    assert kinds == [(1, "train"), (2, "train"), (2, "validation"), (3, "train"), (3, "validation")]
    assert {*times_generated(run).values(), *times_generated(run, "validation").values()} == {1}


def test_a_script_that_runs_astuner_is_not_the_code_that_blocks(start: Start, tmp_path: Path) -> None:
    (tmp_path / "project" / "mine.py").write_text(SCRIPT)
    command = ["-c", "import runpy; runpy.run_path('mine.py', run_name='__main__')"]
    process = start("update", command=command)
    until = time.monotonic() + ENDS_S
    while not (tmp_path / "project" / "slow").exists():
        assert process.poll() is None, (tmp_path / "log.txt").read_text()
        assert time.monotonic() < until
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.wait(ENDS_S)
    log = (tmp_path / "log.txt").read_text()
    assert "Interrupted: stopped after step 2" in log
    assert "users' code" not in log
    assert (record(tmp_path / "project", "stored") / "checkpoints" / "step_2").is_dir()
