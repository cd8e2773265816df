"""Agents written in other frameworks are tuned through the gateway without being touched."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("agent", ["RawHttpAgent", "AgentScopeAgent"])
def test_the_reward_of_an_agent_of_another_framework_rises(cli: Cli, project: Path, agent: str):
    shutil.copy(Path(__file__).parent / "agents.py", project / "agents.py")
    finished = cli("run", "--conf", "tune.yaml", *SETTINGS, f"--set=rollout.user_workflow=./agents.py:{agent}", cwd=project)
    assert finished.returncode == 0, finished.stderr
    rewards = [row["reward/mean"] for row in metric_rows(record(project))]
    assert len(rewards) == STEPS
    assert rewards[-1] > rewards[0] + 0.15, rewards


def test_every_turn_of_an_agent_continues_the_recorded_stream(cli: Cli, project: Path):
    shutil.copy(Path(__file__).parent / "agents.py", project / "agents.py")
    more = ("--set=rollout.user_workflow=./agents.py:AgentScopeAgent", "--set=trainer_common.total_training_steps=1")
    finished = cli("run", "--conf", "tune.yaml", *SETTINGS, *more, cwd=project)
    assert finished.returncode == 0, finished.stderr
    entries = map(json.loads, (record(project) / "episodes" / "train.jsonl").read_text().splitlines())
    episodes = [entry["episode"] for entry in entries if entry["kind"] == "episode"]
    several = [episode for episode in episodes if len(episode["calls"]) > 1]
    assert several, "no episode called its tool"
    assert all(len(episode["samples"]) == 1 for episode in several)
    assert all(not episode["untrained"] for episode in several)


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_a_workflow_in_a_thread_or_process_of_its_own_is_recorded_alike(cli: Cli, project: Path, isolation: str):
    more = ("--set=trainer_common.total_training_steps=1", "--set=data.train_batch_size=2", "--set=rollout.num_repeat=2")
    plain = cli("run", "--conf", "tune.yaml", *SETTINGS, *more, "--set=experiment_name=plain", cwd=project)
    assert plain.returncode == 0, plain.stderr
    more = (*more, "--set=rollout.max_env_worker=2", f"--set=rollout.isolation={isolation}", "--set=experiment_name=apart")
    apart = cli("run", "--conf", "tune.yaml", *SETTINGS, *more, cwd=project)
    assert apart.returncode == 0, apart.stderr
    assert metric_rows(record(project, "apart")) == metric_rows(record(project, "plain"))
