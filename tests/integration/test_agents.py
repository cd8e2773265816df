"""Agents are tuned through the gateway without being touched, wherever they run. Frameworks have tests/frameworks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from harness import Cli
from runs_on_disk import metric_rows, record

STEPS = 8
SETTINGS = (
    "--backbone=local",
    "--set=data.train_batch_size=8",
    "--set=rollout.num_repeat=8",
    f"--set=trainer_common.total_training_steps={STEPS}",
    "--set=trainer_common.val_before_train=false",
    "--set=trainer_common.test_freq=-1",
    "--set=trainer_common.save_freq=-1",
)


def test_the_reward_of_an_agent_without_any_sdk_rises(cli: Cli, project: Path):
    shutil.copy(Path(__file__).parent / "raw_http_agent.py", project)
    workflow = "--set=rollout.user_workflow=./raw_http_agent.py:RawHttpAgent"
    finished = cli("run", "--conf", "tune.yaml", *SETTINGS, workflow, cwd=project)
    assert finished.returncode == 0, finished.stderr
    rewards = [row["reward/mean"] for row in metric_rows(record(project))]
    assert len(rewards) == STEPS
    assert rewards[-1] > rewards[0] + 0.15, rewards


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_workflow_in_a_thread_or_process_of_its_own_is_recorded_alike(cli: Cli, project: Path, isolation: str):
    more = ("--set=trainer_common.total_training_steps=1", "--set=data.train_batch_size=2", "--set=rollout.num_repeat=2")
    plain = cli("run", "--conf", "tune.yaml", *SETTINGS, *more, "--set=experiment_name=plain", cwd=project)
    assert plain.returncode == 0, plain.stderr
    more = (*more, "--set=rollout.max_env_worker=2", f"--set=rollout.isolation={isolation}", "--set=experiment_name=apart")
    apart = cli("run", "--conf", "tune.yaml", *SETTINGS, *more, cwd=project)
    assert apart.returncode == 0, apart.stderr
    assert metric_rows(record(project, "apart")) == metric_rows(record(project, "plain"))
