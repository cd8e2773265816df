"""A tiny model with random weights learns what the reward of an environment of `verifiers` asks for."""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import pytest

from astuner.contract.protocols import TinyModelJob
from astuner_devkit import write_project
from astuner_devkit.run_in_process import add_recorder, play

pytest.importorskip("verifiers.v1", reason="comes with the extra verifiers")
pytest.importorskip("astuner_local", reason="comes with astuner-local")

STEPS = 6


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Write a tiny model that has seen nothing."""
    from astuner_local.backbone import LocalBackbone

    job = TinyModelJob(out=tmp_path / "tiny", texts=["Say a.", "Say e."], context=64, seed=0)
    job.out.mkdir()
    backbone = LocalBackbone()
    backbone.make_tiny_tokenizer(job).save_pretrained(job.out)
    backbone.make_tiny_model(job)
    return job.out


def test_the_reward_of_the_environment_rises(tmp_path, model):
    workflow = "astuner_envs.verifiers:VerifiersWorkflow"
    env = {"taskset": {"id": "plain_text"}, "agent": {"runtime": {"type": "subprocess"}}}
    settings = {
        "model": {"path": str(model)},
        "task_reader": {"type": "verifiers", "verifiers": {"env": env}},
        "data": {"train_batch_size": 2, "max_prompt_length": 40, "max_response_length": 8},
        "rollout": {"user_workflow": workflow, "num_repeat": 16, "max_model_len": 64, "max_response_length_in_one_turn": 8},
        "trainer_common": {
            "total_training_steps": STEPS,
            "optim": {"lr": 3.0e-3},
            "val_before_train": False,
            "test_freq": -1,
            "save_freq": -1,
        },
    }
    played = play(write_project(tmp_path, workflow=workflow, backbone="local", settings=add_recorder(settings)))
    episodes = [[episode for episode in played.episodes if episode.step == step] for step in range(1, STEPS + 1)]
    assert all(episode.completed for episode in played.episodes)
    rewards = [mean(episode.reward for episode in of_step) for of_step in episodes]
    assert mean(rewards[-2:]) > mean(rewards[:2]) + 0.25, rewards
    assert all(sample.trained == len(episode.calls[0].output_ids) for episode in played.episodes for sample in episode.samples)
