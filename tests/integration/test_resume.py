"""A run survives: killed at any moment it goes on to the same weights, and generates nothing twice."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from harness import SMALL, Cli, environment
from python_server import ForkedPython, PythonServer
from runs_on_disk import metric_rows, record, recorded_tokens, times_generated, weights_digest

STEPS = 4

Start = Callable[..., ForkedPython]


@pytest.fixture(scope="module")
def uninterrupted(quickstart: Path, separate_cli: Cli, tmp_path_factory: pytest.TempPathFactory) -> Path:
    # Not from the server: the other runs are compared with it, which must not depend on the seed of hashes.
    home = tmp_path_factory.mktemp("uninterrupted") / "project"
    shutil.copytree(quickstart, home, ignore=shutil.ignore_patterns("model"))
    (home / "model").symlink_to(quickstart / "model")
    finished = separate_cli("run", "--conf", "tune.yaml", *SMALL, cwd=home)
    assert finished.returncode == 0, finished.stderr
    return record(home)


@pytest.fixture
def start(python_server: PythonServer) -> Start:
    def start(project: Path, *more: str) -> ForkedPython:
        command = ["-m", "astuner", "run", "--conf", "tune.yaml", *SMALL, *more]
        with (project / "log.txt").open("ab") as log:
            return python_server.start(command, cwd=project, env=environment(), output=(log, log), start_new_session=True)

    return start


def wait_for_episodes(run: Path, process: ForkedPython, count: int) -> None:
    deadline = time.monotonic() + 120
    while sum(times_generated_safely(run).values()) < count and process.poll() is None:
        assert time.monotonic() < deadline, "no episode was finished"
        time.sleep(0.02)


def times_generated_safely(run: Path, split: str = "train"):
    try:
        return times_generated(run, split)
    except ValueError:
        return {}  # a line is being written


@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_points_it_ends_with_the_same_weights(
    start: Start, project: Path, uninterrupted: Path, cli: Cli, seed: int
):
    rng = random.Random(seed)
    run = record(project)
    reached = 0
    for _ in range(2):
        process = start(project, *(["--resume"] if reached else []))
        reached = min(reached + rng.randint(1, 20), 12 * STEPS - 2)
        wait_for_episodes(run, process, reached)
        time.sleep(rng.random() * 0.3)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    finished = cli("run", "--conf", "tune.yaml", *SMALL, "--resume", cwd=project)
    assert finished.returncode == 0 or "is finished" in finished.stderr, finished.stderr
    assert weights_digest(run, STEPS) == weights_digest(uninterrupted, STEPS)
    assert metric_rows(run) == metric_rows(uninterrupted)
    assert recorded_tokens(run) == recorded_tokens(uninterrupted)
    assert f"step_{STEPS}.npz" in recorded_tokens(run)
    assert set(times_generated(run).values()) == {1}
    assert times_generated(run).keys() == times_generated(uninterrupted).keys()


def test_two_runs_of_one_seed_are_identical(project: Path, uninterrupted: Path, cli: Cli):
    assert cli("run", "--conf", "tune.yaml", *SMALL, cwd=project).returncode == 0
    assert metric_rows(record(project)) == metric_rows(uninterrupted)
    assert weights_digest(record(project), STEPS) == weights_digest(uninterrupted, STEPS)


def test_ctrl_c_saves_the_state_and_the_run_goes_on(start: Start, project: Path, uninterrupted: Path, cli: Cli):
    process = start(project)
    wait_for_episodes(record(project), process, 14)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 130, (project / "log.txt").read_text()
    again = cli("run", "--conf", "tune.yaml", *SMALL, cwd=project)
    assert (again.returncode, "--resume" in again.stderr, "experiment_name" in again.stderr) == (2, True, True)
    assert cli("run", "--conf", "tune.yaml", *SMALL, "--resume", cwd=project).returncode == 0
    assert weights_digest(record(project), STEPS) == weights_digest(uninterrupted, STEPS)
    assert set(times_generated(record(project)).values()) == {1}


def test_a_changed_key_is_refused_at_resume_and_named(start: Start, project: Path, cli: Cli):
    process = start(project)
    wait_for_episodes(record(project), process, 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    changed = cli("run", "--conf", "tune.yaml", *SMALL, "--resume", "--set=trainer_common.optim.lr=0.5", cwd=project)
    assert changed.returncode == 2
    assert "trainer_common.optim.lr" in changed.stderr


def test_a_finished_run_is_not_started_over(project: Path, cli: Cli):
    small = (*SMALL, "--set=trainer_common.total_training_steps=1")
    assert cli("run", "--conf", "tune.yaml", *small, cwd=project).returncode == 0
    again = cli("run", "--conf", "tune.yaml", *small, cwd=project)
    assert (again.returncode, "experiment_name" in again.stderr) == (2, True)


def test_a_full_disk_while_saving_loses_nothing(project: Path, uninterrupted: Path, cli: Cli):
    # A limit on file sizes fails like a full disk: the weights do not fit, the episodes do.
    command = f"ulimit -f 400; exec {sys.executable} -m astuner run --conf tune.yaml {' '.join(SMALL)}"
    full = subprocess.run(["bash", "-c", command], cwd=project, env=environment(), capture_output=True, text=True, check=False)
    assert full.returncode == 1, full.stderr
    assert "--resume" in full.stderr
    assert "Traceback" not in full.stderr
    assert cli("run", "--conf", "tune.yaml", *SMALL, "--resume", cwd=project).returncode == 0
    assert weights_digest(record(project), STEPS) == weights_digest(uninterrupted, STEPS)
    assert set(times_generated(record(project)).values()) == {1}


def test_a_finished_run_goes_on_when_it_is_made_longer(project: Path, uninterrupted: Path, cli: Cli):
    assert cli("run", "--conf", "tune.yaml", *SMALL, "--set=trainer_common.total_training_steps=2", cwd=project).returncode == 0
    longer = cli("run", "--conf", "tune.yaml", *SMALL, "--resume", cwd=project)
    assert longer.returncode == 0, longer.stderr
    assert weights_digest(record(project), STEPS) == weights_digest(uninterrupted, STEPS)


def test_a_stop_in_the_middle_of_a_validation_loses_no_report(start: Start, project: Path, cli: Cli):
    validating = ("--set=trainer_common.test_freq=2", "--set=rollout.max_env_worker=4")
    whole = cli("run", "--conf", "tune.yaml", *SMALL, *validating, "--set=experiment_name=whole", cwd=project)
    assert whole.returncode == 0, whole.stderr
    process = start(project, *validating)
    deadline = time.monotonic() + 120
    while not times_generated_safely(record(project), "validation") and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    process.wait(120)
    resumed = cli("run", "--conf", "tune.yaml", *SMALL, *validating, "--resume", cwd=project)
    assert resumed.returncode == 0, resumed.stderr
    assert metric_rows(record(project)) == metric_rows(record(project, "whole"))


def test_sigusr1_saves_a_checkpoint_at_the_end_of_the_step(start: Start, project: Path):
    process = start(project, "--set=trainer_common.save_freq=-1", "--set=trainer_common.total_training_steps=60")
    wait_for_episodes(record(project), process, 3)
    process.send_signal(signal.SIGUSR1)
    deadline = time.monotonic() + 60
    while not list((record(project) / "checkpoints").glob("step_*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() is None
    assert list((record(project) / "checkpoints").glob("step_*"))
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def test_adapters_go_on_bit_for_bit_too(project: Path, cli: Cli):
    lora = ("--set=model.lora_rank=4", "--set=trainer_common.optim.lr=0.01")
    whole = cli("run", "--conf", "tune.yaml", *SMALL, *lora, "--set=experiment_name=whole", cwd=project)
    assert whole.returncode == 0, whole.stderr
    assert (
        cli("run", "--conf", "tune.yaml", *SMALL, *lora, "--set=trainer_common.total_training_steps=2", cwd=project).returncode
        == 0
    )
    resumed = cli("run", "--conf", "tune.yaml", *SMALL, *lora, "--resume", cwd=project)
    assert resumed.returncode == 0, resumed.stderr
    assert weights_digest(record(project), STEPS) == weights_digest(record(project, "whole"), STEPS)


FALLING = (
    "--set=trainer_common.optim.lr_scheduler_type=linear",
    "--set=trainer_common.optim.lr_warmup_steps=0",
    "--set=trainer_common.save_freq=-1",
)


def test_a_run_of_another_length_under_a_falling_rate_ends_like_one_that_began_with_it(start: Start, project: Path, cli: Cli):
    whole = cli("run", "--conf", "tune.yaml", *SMALL, *FALLING, "--set=experiment_name=whole", cwd=project)
    assert whole.returncode == 0, whole.stderr
    process = start(project, *FALLING, "--set=trainer_common.total_training_steps=8")
    wait_for_episodes(record(project), process, 40)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    resumed = cli("run", "--conf", "tune.yaml", *SMALL, *FALLING, "--resume", cwd=project)
    assert resumed.returncode == 0, resumed.stderr
    assert weights_digest(record(project), STEPS) == weights_digest(record(project, "whole"), STEPS)
    assert "the run had 8 steps and has 4 now" in " ".join(resumed.stderr.split())


def test_a_second_run_on_adapters_measures_its_divergence_from_them_and_goes_on_bit_for_bit(project: Path, cli: Cli):
    lora = ("--set=model.lora_rank=4", "--set=trainer_common.optim.lr=0.01")
    first = cli("run", "--conf", "tune.yaml", *SMALL, *lora, "--set=experiment_name=first", cwd=project)
    assert first.returncode == 0, first.stderr
    # So many tasks that rewards differ in some group.
    second = (
        "--set=trainer_common.optim.lr=0.01",
        "--set=data.train_batch_size=8",
        f"--set=model.path={record(project, 'first')}/checkpoints/step_{STEPS}",
    )
    whole = cli("run", "--conf", "tune.yaml", *SMALL, *second, "--set=experiment_name=whole", cwd=project)
    assert whole.returncode == 0, whole.stderr
    half = cli("run", "--conf", "tune.yaml", *SMALL, *second, "--set=trainer_common.total_training_steps=2", cwd=project)
    assert half.returncode == 0, half.stderr
    assert next(row["kl/mean"] for row in metric_rows(record(project)) if "kl/mean" in row) == pytest.approx(0, abs=1e-6)
    resumed = cli("run", "--conf", "tune.yaml", *SMALL, *second, "--resume", cwd=project)
    assert resumed.returncode == 0, resumed.stderr
    assert weights_digest(record(project), STEPS) == weights_digest(record(project, "whole"), STEPS)
