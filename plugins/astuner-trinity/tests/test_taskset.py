"""Each explorer step gets its tasks, under the step of the run that their episodes are named by."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trinity")

from attrs import asdict, evolve
from trinity.common.config import StorageConfig

from astuner.settings.planning.plan import plan_run
from astuner.settings.planning.replan import write_plan
from astuner_trinity.explorer.taskset import Taskset
from astuner_trinity.layout import Layout
from astuner_trinity.schedule import Schedule
from astuner_trinity.stages import STEPS_BEFORE

CONF = """
astuner:
  backbone: trinity
  model: {path: org/model}
  rollout: {user_workflow: './agent.py:Agent'}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}, validation: {file_path: tasks.jsonl}}}
  task_judge: {judge_type: customized_protocol, judge_protocol: './agent.py:Judge'}
  data: {train_batch_size: 1}
"""
AGENT = """
from astuner import Workflow


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        raise NotImplementedError


class Judge:
    def compute_reward(self, workflow_task, workflow_output):
        raise NotImplementedError
"""
SYNCHRONIZER = {"sync_style": "fixed", "sync_offset": 0, "sync_interval": 1, "explorer_sync_interval": None}


@pytest.fixture
def taskset(tmp_path: Path) -> Callable[..., Taskset]:
    """Return a function from the run's step before a stage of 2 steps to the stage's tasks."""
    (tmp_path / "run.yaml").write_text(CONF)
    (tmp_path / "agent.py").write_text(AGENT)
    tasks = [{"main_query": "?", "task_id": name} for name in ("a", "b")]
    (tmp_path / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)))
    (tmp_path / "run").mkdir()
    layout = Layout(tmp_path / "run")
    run = evolve(plan_run(tmp_path / "run.yaml", (), "trinity").run_info(), directory=tmp_path / "run")
    facts: dict[str, Any] = {"schedule": asdict(Schedule(total=9, every=1, before=True)), "in_flight": 1}
    write_plan(run, layout.plan, synchronizer={**SYNCHRONIZER, "trainer_sync_interval": None}, **facts)

    def make_taskset(before: int) -> Taskset:
        return Taskset(StorageConfig(path=str(layout.plan), total_steps=2, workflow_args={STEPS_BEFORE: before}))

    return make_taskset


@pytest.mark.parametrize("before", [0, 40])
def test_tasks_have_the_steps_of_the_run(taskset: Callable[..., Taskset], before: int) -> None:
    stage = taskset(before)
    found = [[task.raw_task for task in asyncio.run(stage.read())] for _ in range(3)]
    steps = [[(raw["split"], raw["step"] - before, raw["final"] and raw["final"] - before) for raw in step] for step in found]
    validation = [("validation", step, 2 if step == 2 else None) for step in (0, 1, 2) for _ in range(2)]
    assert steps == [
        [("train", 1, None), *validation[:2]],
        [("train", 2, None), *validation[2:4]],
        validation[4:],
    ]
    with pytest.raises(StopAsyncIteration):
        asyncio.run(stage.read())
