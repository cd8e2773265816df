"""Environments that lead: tuned without any workflow, and released when a run is interrupted."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from harness import Cli, environment
from runs_on_disk import metric_rows, record

from astuner.runs.store.store_lines import read_records
from astuner_devkit import write_project

STEPS = 8
LEADS = (
    "--backbone=local",
    "--set=rollout.use_agentscope_protocol=false",
    "--set=rollout.user_workflow=null",
    "--set=rollout.multi_turn.max_steps=3",
    "--set=environment.environment_type=./calculator_world.py:CalculatorWorld",
    "--set=environment.env_action_preference=box",
    "--set=task_judge.judge_protocol=null",
    "--set=data.train_batch_size=8",
    "--set=rollout.num_repeat=8",
    f"--set=trainer_common.total_training_steps={STEPS}",
    "--set=trainer_common.val_before_train=false",
    "--set=trainer_common.test_freq=-1",
    "--set=trainer_common.save_freq=-1",
)

ENDLESS = """
import asyncio
from pathlib import Path

HERE = Path(__file__).parent


class Endless:
    def __init__(self, workflow_task):
        self.task_id = workflow_task.task_id

    async def reset(self):
        return [{"role": "user", "content": "Wait."}]

    async def step(self, action):
        (HERE / f"waiting-{self.task_id}").touch()
        await asyncio.sleep(600)

    async def evaluate(self):
        return 0.0

    async def close(self):
        await asyncio.sleep(0.1)
        (HERE / f"closed-{self.task_id}").touch()
"""


def test_the_score_of_an_environment_that_leads_rises(cli: Cli, project: Path):
    shutil.copy(Path(__file__).parent / "calculator_world.py", project / "calculator_world.py")
    finished = cli("run", "--conf", "tune.yaml", *LEADS, cwd=project)
    assert finished.returncode == 0, finished.stderr
    rows = metric_rows(record(project))
    rewards = [row["reward/mean"] for row in rows]
    assert len(rewards) == STEPS
    assert rewards[-1] > rewards[0] + 0.15, rewards
    assert [row["workflow/score"] for row in rows] == rewards
    assert rows[-1]["workflow/steps"] > 1.0
    entries = read_records(record(project) / "episodes" / "train.jsonl")
    episodes = [entry["episode"] for _, entry in entries if entry["kind"] == "episode"]
    assert {len(episode["samples"]) for episode in episodes} == {1}


def test_an_interrupted_run_releases_its_environments(tmp_path: Path):
    (tmp_path / "endless.py").write_text(ENDLESS)
    tasks = [{"task_id": f"t{i}", "main_query": "wait"} for i in range(3)]
    rollout = {"user_workflow": None, "use_agentscope_protocol": False}
    settings = {"environment": {"environment_type": "./endless.py:Endless"}, "task_judge": {}, "rollout": rollout}
    conf = write_project(tmp_path, tasks=tasks, settings=settings)
    command = [sys.executable, "-m", "astuner", "run", "--conf", str(conf)]
    running = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while len(list(tmp_path.glob("waiting-*"))) < 3:
            assert running.poll() is None, running.stderr and running.stderr.read()
            assert time.monotonic() < deadline, "no episode began"
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=30)
    finally:
        running.kill()
    assert running.returncode == 130, said
    assert {path.name for path in tmp_path.glob("closed-*")} == {"closed-t0", "closed-t1", "closed-t2"}
