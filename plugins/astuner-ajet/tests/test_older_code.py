"""Workflows as older releases have them: another method, and the tuner itself is the agents' model."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

import ajet
import astuner
from astune import ModelTuner, Workflow, WorkflowOutput, WorkflowTask
from astuner.settings.config.model import Config
from astuner_ajet.playing import make_player
from astuner_devkit import run_info

TASK = astuner.WorkflowTask(astuner.Task("2+2?", task_id="7"), task_id="7", episode_id="train/1/7/0", repeat=0)


class Model:
    """A chat model that says what it is asked."""

    model_name = "tuned"

    def __init__(self, target):
        self.target = target

    async def __call__(self, messages, tools=None):
        return self.target, messages, tools


class Tuner:
    """Hands out models, and counts them."""

    def __init__(self):
        self.made = []

    def as_agentscope_model(self, agent_name, target_tag, *, stream):
        assert stream is False
        self.made.append((agent_name, target_tag))
        return Model(target_tag)

    def as_oai_baseurl_apikey(self, agent_name, target_tag):
        return SimpleNamespace(base_url="http://127.0.0.1", api_key="k", model="tuned")


class Older(Workflow):
    trainer: str = "astune-verl"
    trainable_targets: list = ["wolf"]  # noqa: RUF012 - pydantic copies it

    async def agentscope_execute(self, workflow_task: WorkflowTask, model_tuner: ModelTuner) -> WorkflowOutput:
        model_tuner.stream = False  # as agents of AgentScope do around a structured answer
        answers = [await model_tuner([{"role": "user", "content": str(number)}]) for number in range(2)]
        villager = model_tuner.register_model("villager", default_model="another")
        wolf = model_tuner.register_model("wolf", default_model="another")
        found = {"answers": answers, "villager": villager, "wolf": wolf.target, "name": model_tuner.model_name}
        return WorkflowOutput(reward=1.0, metadata=found)


def play(workflow, tmp_path, tuner):
    player = make_player(workflow).from_run(None, run_info(tmp_path, config=Config()))
    return asyncio.run(player.execute(TASK, tuner))


def test_the_older_method_plays_and_the_tuner_is_a_model(tmp_path):
    tuner = Tuner()
    output = play(Older, tmp_path, tuner)
    assert [messages[0]["content"] for _, messages, _ in output.metadata["answers"]] == ["0", "1"]
    assert output.metadata["villager"] == "another"
    assert (output.metadata["wolf"], output.metadata["name"]) == ("wolf", "tuned")
    # One model for all calls of the tuner itself, and one for the target that is trained.
    assert tuner.made == [("default_agent_name", "default_target_tag"), ("wolf", "wolf")]


def test_its_targets_are_trained():
    assert Older.as_workflow().trainable_targets == ["wolf"]


def test_a_class_that_plays_nothing_is_refused_before_a_run():
    class Empty(ajet.Workflow):
        name: str = "empty"

    with pytest.raises(TypeError, match=r"Empty has no method `async def execute\(self, workflow_task, tuner\)`"):
        Empty.as_workflow()
