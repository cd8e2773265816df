"""`VerifiersWorkflow` runs the environment's own rollout, and its rewards are the environment's own."""

from __future__ import annotations

import os
import shutil

import pytest

from astuner_devkit import write_project
from astuner_devkit.run_in_process import add_recorder, play

pytest.importorskip("verifiers.v1", reason="comes with the extra verifiers")

LOCAL = {"runtime": {"type": "subprocess"}}
VOWELS = {"taskset": {"id": "vowels", "vowels": "ab"}, "agent": LOCAL}
DUEL = {"taskset": {"id": "duel"}}
TWO = {"training": {"select": {"limit": 2}}}


ONLY_THE_FIRST = """
from astuner_envs.verifiers import VerifiersWorkflow


class OnlyTheFirst(VerifiersWorkflow):
    trainable_targets = ("first",)
"""


@pytest.mark.parametrize("isolation", ["async", "thread", "process"])
def test_the_rewards_are_those_of_the_environment(play_world, isolation):
    played = play_world(VOWELS, ["aaab"], reader={"success_reward": 2.0}, isolation=isolation, max_env_worker=1)
    # Two times the share of the vowel, and half a point for a short reply.
    assert played.rewards == [2.0, 2.0, 1.0, 1.0]
    assert [episode.is_success for episode in played.episodes] == [True, True, False, False]
    first = played.episodes[0]
    assert first.output.log_metrics == {"reward/share": 0.75, "reward/short": 1.0, "metric/length": 4.0, "turns": 1.0}
    assert (first.output.metadata["final_answer"], first.output.metadata["is_truncated"]) == ("aaab", False)
    assert played.metrics["workflow/reward/share"] == 0.5


def test_every_sampled_token_is_trained_and_the_prompt_is_that_of_the_task(play_world):
    played = play_world(VOWELS, ["aaab"])
    for episode in played.episodes:
        (call,) = episode.calls
        assert [message["role"] for message in call.messages[:2]] == ["system", "user"]
        assert episode.samples[0].trained == len(call.output_ids)
        assert episode.untrained == {}
        assert episode.task.main_query in [message["content"] for message in call.messages]


def test_a_failure_of_the_scoring_ends_that_episode_alone(play_world):
    played = play_world({**VOWELS, "taskset": {"id": "vowels", "vowels": "a"}}, ["raise"], repeat=1)
    (episode,) = played.episodes
    assert (episode.reward, episode.failures[0].reason) == (None, "workflow_error")
    assert "environment 'vowels': TaskError: task VowelsTask scoring: KeyError: 'the metric'" in episode.failures[0].detail
    assert len(episode.calls) == 1


def test_turns_continue_each_other_and_roles_are_rewarded_apart(play_world):
    played = play_world(DUEL, ["one", "three", "seven"], reader=TWO, repeat=1)
    episode = played.episodes[0]
    assert [(call.agent, call.parent) for call in episode.calls] == [
        ("first", None),
        ("first", 0),
        ("first", 1),
        ("second", None),
    ]
    assert (episode.reward_of("first"), episode.reward_of("second")) == (5.0, 3.0)
    assert episode.output.log_metrics["first/reward/length"] == 5.0
    assert sum(sample.trained for sample in episode.samples) == sum(len(call.output_ids) for call in episode.calls)


def test_an_agent_that_the_environment_freezes_is_not_trained_silently(play_world):
    played = play_world({**DUEL, "freeze_second": True}, ["hm"], reader=TWO, repeat=1)
    assert {failure.reason for episode in played.episodes for failure in episode.failures} == {"workflow_error"}
    detail = played.episodes[0].failures[0].detail
    assert "does not train second" in detail
    assert "trainable_targets = ['first']" in detail


def test_a_subclass_names_the_roles_that_are_trained(play_world, tmp_path):
    (tmp_path / "first.py").write_text(ONLY_THE_FIRST)
    played = play_world({**DUEL, "freeze_second": True}, ["hm"], reader=TWO, repeat=1, user_workflow="./first.py:OnlyTheFirst")
    for episode in played.episodes:
        assert episode.reward == 2.0
        assert {sample.agent for sample in episode.samples} == {"first"}


def test_a_lost_sandbox_is_played_again_and_then_counted(play_world):
    played = play_world({**DUEL, "box_is_lost": True}, ["hm"], reader=TWO, repeat=1, max_retries=1)
    for episode in played.episodes:
        assert [(failure.reason, failure.retried) for failure in episode.failures] == [
            ("service_unavailable", True),
            ("service_unavailable", False),
        ]
        assert "SandboxError: the box is gone" in episode.failures[0].detail


def test_the_key_of_an_episode_is_taken_back(play_world):
    before = dict(os.environ)
    play_world(VOWELS, ["raise"], repeat=1)
    assert {name for name in os.environ if name.startswith("ASTUNER_API_KEY_")} == set()
    assert os.environ.keys() == before.keys()


def test_tasks_of_another_reader_are_refused_with_the_remedy(play_world, tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"main_query": "hello"}\n')
    rows = {"type": "dataset_file", "dataset_file": {"training": {"file_path": "rows.jsonl"}}}
    workflow = "astuner_envs.verifiers:VerifiersWorkflow"
    settings = add_recorder({"task_reader": rows, "rollout": {"failure_budget": 1.0, "num_repeat": 1}})
    (episode,) = play(write_project(tmp_path, workflow=workflow, settings=settings)).episodes
    assert "read the tasks with task_reader.type: verifiers" in episode.failures[0].detail


@pytest.mark.skipif(shutil.which("uv") is None, reason="verifiers prepares its own programs with uv")
def test_a_program_of_verifiers_is_played_as_it_is(play_world):
    played = play_world({**VOWELS, "agent": {**LOCAL, "harness": {"id": "null"}}}, ["aaab"], repeat=1)
    assert played.rewards == [2.0, 1.0]
    assert [len(episode.calls) for episode in played.episodes] == [1, 1]
