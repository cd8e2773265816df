"""Workflow classes that know the run, play agents of other libraries, or declare their targets as fields of pydantic."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from attrs import evolve

from astuner.contract.errors import PluginError
from astuner.contract.schema import Task, WorkflowTask
from astuner.episodes.rollout.isolation import InProcess, InThread
from astuner.episodes.rollout.workflows import load_workflow
from astuner_devkit import run_info

HERE = Path(__file__).parent
TARGET = "./adapted_agents.py:Foreign"
TASK = WorkflowTask(Task("how many?"), settings={"size": 4})

PYDANTIC = """
from pydantic import BaseModel, Field

class Model(BaseModel):
    trainable_targets: list[str] | None = Field(default=["solver"])
    async def execute(self, workflow_task, tuner): ...

class Made(BaseModel):
    trainable_targets: list[str] | None = Field(default_factory=lambda: ["maker"])
    async def execute(self, workflow_task, tuner): ...

class Plain:
    trainable_targets: list[str] | None = Field(default=["plain"])
    async def execute(self, workflow_task, tuner): ...

class All(BaseModel):
    trainable_targets: list[str] | None = Field(default=None)
    async def execute(self, workflow_task, tuner): ...

class Silent(BaseModel):
    async def execute(self, workflow_task, tuner): ...

class Odd(BaseModel):
    trainable_targets: str = Field(default="solver")
    async def execute(self, workflow_task, tuner): ...
"""


class NoTuner:
    def remote(self):
        return None


def play(executor):
    try:
        return asyncio.run(executor.run(TASK, NoTuner())).output
    finally:
        executor.close()


@pytest.mark.parametrize("isolation", ["thread", "process"])
def test_an_agent_of_another_library_is_played_by_the_class_that_it_names(isolation, tmp_path):
    info = evolve(run_info(tmp_path), config_dir=HERE, seed=11)
    loaded = load_workflow(TARGET, HERE, info)
    executor = InProcess(TARGET, HERE, 1, info) if isolation == "process" else InThread(loaded.make, blocking=loaded.blocks)
    assert play(executor).metadata == {"seed": 11, "settings": {"size": 4}, "said": "hello"}


def test_it_is_read_off_the_class_that_plays_it():
    loaded = load_workflow(TARGET, HERE)
    assert loaded.adapted
    assert loaded.blocks
    assert loaded.trainable_targets == ("solver",)


@pytest.mark.parametrize(
    ("name", "targets"),
    [("Model", ("solver",)), ("Made", ("maker",)), ("Plain", ("plain",)), ("All", None), ("Silent", None)],
)
def test_targets_may_be_a_field_of_pydantic(name, targets, tmp_path):
    (tmp_path / "fields.py").write_text(PYDANTIC)
    assert load_workflow(f"./fields.py:{name}", tmp_path).trainable_targets == targets


def test_a_field_whose_default_is_a_text_is_refused(tmp_path):
    (tmp_path / "fields.py").write_text(PYDANTIC)
    with pytest.raises(PluginError, match=r"Write a list: trainable_targets = \['solver'\]"):
        load_workflow("./fields.py:Odd", tmp_path)
