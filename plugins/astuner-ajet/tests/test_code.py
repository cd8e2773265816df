"""What the code of AgentJet's projects finds here: tasks, outputs, the configuration, environments and judges."""

from __future__ import annotations

import asyncio
import pickle

import pytest
from attrs import evolve
from pydantic import Field

import ajet
import astuner
from ajet.task_judge.base_judge import BaseJudge
from ajet.task_judge.env_service_as_judge import EnvServiceJudge
from ajet.task_reader import BaseTaskReader
from ajet.utils.dynamic_import import dynamic_import
from astuner.contract.schema import Episode, Group, Verdict
from astuner.settings.config.model import Config
from astuner_ajet.environment import BlockingEnvironment
from astuner_ajet.playing import make_player
from astuner_ajet.settings import read_settings
from astuner_ajet.tasks import to_ajet_task, to_astuner_output
from astuner_devkit import run_info

TASK = astuner.WorkflowTask(
    astuner.Task("2+2?", task_id="7", metadata={"answer": "4"}), task_id="7", episode_id="train/1/7/2", repeat=2
)


@pytest.fixture
def info(tmp_path):
    config = Config(workflow={"frozen_lake": {"frozen_lake_size": 4}, "ajet": {"judge": {"concurrency": 3}}})
    return run_info(tmp_path, config=config)


def test_the_configuration_is_read_by_attribute_and_by_item(info):
    config = read_settings(info)
    assert config.ajet.rollout.multi_turn.max_steps == config["ajet"]["rollout"]["multi_turn"]["max_steps"] == 30
    assert config.frozen_lake.frozen_lake_size == 4
    assert config.ajet.judge.concurrency == 3
    assert config.ajet.rollout.get("no_such_key", 5) == 5


def test_it_has_the_older_spellings_too(info):
    assert read_settings(info).ajet.rollout.val_kwargs.num_repeat == info.config.trainer_common.val_pass_n


def test_it_crosses_processes_and_cannot_be_changed(info):
    config = pickle.loads(pickle.dumps(read_settings(info)))
    with pytest.raises(AttributeError, match="read-only"):
        config.ajet.seed = 3
    with pytest.raises(AttributeError, match=r"config.frozen_lake has no 'size'. Its keys: frozen_lake_size"):
        config.frozen_lake.size  # noqa: B018 - reading it raises


def test_a_task_has_the_fields_of_agentjet_and_is_the_codes_own():
    task = to_ajet_task(TASK, tokenizer=None)
    task.task.metadata["answer"] = "5"
    task.observation_window["step"][task.task_thread_index] += 1
    assert (task.episode_uuid, task.task_batch_index, task.task_tag) == ("train/1/7/2", 2, "train")
    assert task.task.init_messages == [{"role": "user", "content": "2+2?"}]
    assert TASK.task.metadata["answer"] == "4"


def test_metrics_are_averaged_and_spread():
    metrics = {"length": 3, "times": [1.0, 2.0], "none": [], "tools": {"calls": 2, "s": {"search": [1, 3]}}}
    found = to_astuner_output(ajet.WorkflowOutput(reward=1.0, log_metrics=metrics))
    assert found.log_metrics == {"length": 3, "times": 1.5, "tools/calls": 2, "tools/s/search": 2}


def test_a_reward_for_each_step_is_refused():
    with pytest.raises(ValueError, match="one for each step"):
        to_astuner_output(ajet.WorkflowOutput(reward=[0.0, 1.0]))


class Solver(ajet.Workflow):
    """Says what it is given."""

    name: str = "solver"
    trainable_targets: list[str] | None = Field(default=["solver"])
    rounds: list[int] = []  # noqa: RUF012 - pydantic copies it

    async def execute(self, workflow_task, tuner):
        self.rounds.append(1)
        self.anything = tuner.config.frozen_lake.frozen_lake_size
        return ajet.WorkflowOutput(reward=float(sum(self.rounds)), metadata={"size": self.anything, "name": self.name})


def play(workflow, info, task=TASK):
    return asyncio.run(make_player(workflow).from_run(None, info).execute(task, None))


def test_each_episode_has_an_instance_of_its_own(info):
    outputs = [play(Solver, info) for _ in range(2)]
    assert [output.reward for output in outputs] == [1.0, 1.0]
    assert outputs[0].metadata == {"size": 4, "name": "solver"}


def test_targets_are_those_of_the_field_and_an_empty_list_trains_all():
    class Everyone(ajet.Workflow):
        trainable_targets: list[str] | None = Field(default_factory=list)

        async def execute(self, workflow_task, tuner): ...

    assert Solver.as_workflow().trainable_targets == ["solver"]
    assert Everyone.as_workflow().trainable_targets is None


class Counter:
    """An environment that counts, in its own time."""

    async def reset(self):
        return [{"role": "system", "content": "count"}, {"role": "user", "content": "0"}]

    async def step(self, action):
        await asyncio.sleep(0)
        return [{"role": "user", "content": f"after {action['content']}"}], 0.5, True, {"n": 1}

    async def evaluate(self):
        return 2.0

    async def close(self): ...


class Counts(ajet.Workflow):
    """Uses its environment as AgentJet's code does, inside of a running loop."""

    async def execute(self, workflow_task, tuner):
        observation, reward, done, info = workflow_task.gym_env.step(action={"content": [{"type": "text", "text": "up"}]})
        found = {"observation": observation, "done": done, "info": info, "query": workflow_task.task.main_query}
        return ajet.WorkflowOutput(reward=reward, metadata=found)


def test_an_environment_blocks_and_its_first_messages_are_the_tasks(info):
    output = play(Counts, info, evolve(TASK, gym_env=Counter()))
    assert output.reward == 0.5
    assert output.metadata == {"observation": "after up", "done": True, "info": {"n": 1}, "query": "0"}


def test_messages_that_the_reader_wrote_stay(info):
    task = evolve(TASK, task=evolve(TASK.task, init_messages=({"role": "user", "content": "mine"},)), gym_env=Counter())
    assert play(Counts, info, task).metadata["query"] == "2+2?"


def test_several_messages_come_as_they_are():
    class Talks(Counter):
        async def step(self, action):
            return [{"role": "tool", "content": "1"}, {"role": "user", "content": "2"}], 0.0, False, {}

    observation, *_ = BlockingEnvironment(Talks()).step({"content": "go"})
    assert observation == [{"role": "tool", "content": "1"}, {"role": "user", "content": "2"}]


def test_what_an_environment_raises_arrives():
    class Breaks(Counter):
        async def step(self, action):
            raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        BlockingEnvironment(Breaks()).step({"content": "go"})


class Exact(BaseJudge):
    """Compares, and reads the configuration."""

    def __init__(self, config):
        self.right = config.frozen_lake.frozen_lake_size

    def compute_reward(self, workflow_task, workflow_output):
        is_right = int(workflow_output.metadata["final_answer"]) == int(workflow_task.task.metadata["answer"]) == self.right
        return float(is_right), is_right


def judge(cls, info, observations=None, **output):
    episode = Episode(
        id="train/1/7/2",
        task=TASK.task,
        step=1,
        repeat=2,
        output=astuner.WorkflowOutput(metadata=output),
        observations=observations or {},
    )
    [verdict] = asyncio.run(cls.from_run(None, info).judge(Group(task=TASK.task, episodes=(episode,), step=1, split="train")))
    return verdict


def test_a_judge_is_made_with_the_configuration(info):
    assert judge(Exact, info, final_answer="4") == Verdict(1.0, True)
    assert judge(Exact, info, final_answer="5") == Verdict(0.0, False)


@pytest.mark.parametrize(("score", "verdict"), [(0.5, Verdict(0.25, False)), (1.0, Verdict(1.5, True))])
def test_the_judge_of_environments_has_agentjets_formula(info, score, verdict):
    assert judge(EnvServiceJudge, info, {"score": score}) == verdict


def test_without_an_environment_it_gives_no_reward_and_the_reason(info):
    found = judge(EnvServiceJudge, info)
    assert found.reason == "judge_error"
    assert "task '7' was played in no environment" in found.detail


def test_a_score_is_observed_before_the_environment_is_closed(info):
    inner = EnvServiceJudge.from_run(None, info)
    assert asyncio.run(inner.observe(None, Counter())) == {"score": 2.0}
    assert asyncio.run(inner.observe(None, None)) == {}


def test_readers_of_agentjet_read(info):
    class Two(BaseTaskReader):
        def get_training_tasks(self):
            return [ajet.schema.task.Task(main_query=self.reader_config.type, task_id="1", metadata={"a": 1})]

        def get_validation_tasks(self):
            return []

    reader = Two.from_run(None, info)
    assert list(reader.read("train")) == [astuner.Task("env_service", task_id="1", metadata={"a": 1})]
    assert list(reader.read("validation")) == []


def test_dynamic_import_reads_files_and_modules(tmp_path):
    (tmp_path / "odd_one.py").write_text("class Odd: ...\n")
    assert dynamic_import(f"{tmp_path}/odd_one.py->Odd").__name__ == "Odd"
    assert dynamic_import("ajet.workflow->Workflow") is ajet.Workflow
    with pytest.raises(ImportError, match="there is no 'Even'"):
        dynamic_import(f"{tmp_path}/odd_one.py->Even")
