"""Whatever happens to a run, and whenever: it ends in order, and resumed it is the run that nothing happened to."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
from pathlib import Path

import pytest
from faults import FAULTS
from harness import SMALL, Cli
from moments import MOMENTS, choose_moment
from python_server import PythonServer
from runs_on_disk import metric_rows, record, times_generated, weights_digest
from supervised_run import Ended, Supervisor, send

STEPS = 4
SETTINGS = (
    *SMALL,
    "--set=trainer_common.val_before_train=true",
    "--set=trainer_common.test_freq=2",
    "--set=rollout.max_env_worker=4",
)
SEED = int(os.environ.get("ASTUNER_CHAOS_SEED", "0"))
"""Of the random moments; each is in the name of its test."""

QUICK = [
    ("kill", "starting"),
    ("kill", "first_validation"),
    ("kill", "writing_a_checkpoint"),
    ("terminate", "running"),
    ("terminate", "second_step"),
    ("terminate_twice", "third_step"),
    ("interrupt", "validation_of_a_checkpoint"),
    ("interrupt_twice", "first_step"),
    ("pause", "second_step"),
    ("full_disk", "second_step"),
    ("read_only", "first_step"),
    ("no_descriptors", "second_step"),
    ("no_memory", "second_step"),
]
"""Played in CI; the others of the table are marked slow."""

TABLE = [
    pytest.param(fault, moment, id=f"{fault}-{moment}", marks=() if (fault, moment) in QUICK else pytest.mark.slow)
    for fault in FAULTS
    for moment in MOMENTS
]


@pytest.fixture(scope="module")
def undisturbed(quickstart: Path, separate_cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a run that nothing happens to."""
    home = copy_small(quickstart, tmp_path_factory.mktemp("undisturbed") / "project")
    finished = separate_cli("run", "--conf", "tune.yaml", *SETTINGS, cwd=home)
    assert finished.returncode == 0, finished.stderr
    return record(home)


@pytest.fixture
def supervisor(quickstart: Path, tmp_path: Path, python_server: PythonServer) -> Supervisor:
    return Supervisor(python_server, copy_small(quickstart, tmp_path / "project"))


def copy_small(quickstart: Path, home: Path) -> Path:
    """Copy the project with six tasks to validate, and the model linked."""
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model", "launcher_record"))
    (home / "model").symlink_to(quickstart / "model")
    tasks = home / "tasks" / "validation.jsonl"
    tasks.write_text("".join(tasks.read_text(encoding="utf-8").splitlines(keepends=True)[:6]), encoding="utf-8")
    return home


def check_end(ended: Ended) -> None:
    """Check what holds however a run ends."""
    # Python itself shows a signal that comes while a weak reference is removed, and an atexit callback that gets no memory.
    errors = r"(?:KeyboardInterrupt|\S*UserInterrupt|MemoryError)"
    of_python = re.compile(rf"^Exception ignored in.*?^{errors}: *$", re.MULTILINE | re.DOTALL)
    said = of_python.sub("", ended.said)
    assert not re.search("^Traceback", said, re.MULTILINE), ended.said
    assert ended.left == []


def check_same_run(run: Path, undisturbed: Path, *, once: bool = True) -> None:
    """Check that a run is, to the last bit, the one that nothing happened to."""
    assert weights_digest(run, STEPS) == weights_digest(undisturbed, STEPS)
    assert metric_rows(run) == metric_rows(undisturbed)
    for split in ("train", "validation"):
        assert times_generated(run, split).keys() == times_generated(undisturbed, split).keys()
        assert not once or set(times_generated(run, split).values()) == {1}
    assert [path.name for path in (run / "checkpoints").iterdir() if not path.name.startswith("step_")] == []


@pytest.mark.parametrize(("fault_name", "moment"), TABLE)
def test_a_fault_at_a_moment(supervisor: Supervisor, undisturbed: Path, fault_name: str, moment: str) -> None:
    fault, run = FAULTS[fault_name], supervisor.directory
    ended = supervisor.run(*SETTINGS, moment=MOMENTS[moment], strike=fault.strike(run), alone=fault.alone)
    check_end(ended)
    if not ended.reached or not fault.ends:
        assert ended.code == 0, ended.said
    else:
        # A strike in the last moments of a run may come after all that it could spoil.
        assert ended.code in {*fault.codes, 0}, ended.said
        assert ended.code != 1 or all(word in ended.said.lower() for word in fault.words), ended.said
    fault.mend(run)
    if ended.code != 0:
        resumed = supervisor.run(*SETTINGS, "--resume")
        check_end(resumed)
        assert resumed.code == 0, resumed.said
    check_same_run(run, undisturbed, once=fault_name not in ("no_descriptors", "no_memory"))


@pytest.mark.parametrize("round_", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 20))])
def test_faults_at_random_moments(supervisor: Supervisor, undisturbed: Path, round_: int) -> None:
    rng = random.Random(f"{SEED}/{round_}")
    for start in range(3):
        number = rng.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        ended = supervisor.run(*SETTINGS, *(["--resume"] if start else []), moment=choose_moment(rng), strike=send(number))
        check_end(ended)
        assert ended.code in (-9, 130, 0), ended.said
        if ended.code == 0:
            break
    if ended.code != 0:
        resumed = supervisor.run(*SETTINGS, "--resume")
        check_end(resumed)
        assert resumed.code == 0, resumed.said
    check_same_run(supervisor.directory, undisturbed)
