from __future__ import annotations

from pathlib import Path

import pytest

from astuner_devkit.episodes import episode, group
from astuner_devkit.recorder import Recorder
from astuner_devkit.run_in_process import PlayedRun, add_recorder, read_run

RECORDER = "astuner_devkit.recorder:Recorder"


@pytest.fixture
def played(tmp_path: Path) -> PlayedRun:
    """What was recorded of two steps with a validation between them."""
    recorder = Recorder(tmp_path / Recorder.FILE)
    recorder.log(1, {"reward/mean": 0.25, "tokens/trained": 9})
    recorder.log_episodes(1, [group(episode(0, 0.0), episode(1, None)), group(episode(0, 0.5, task="u"))])
    recorder.log_episodes(1, [group(episode(0, 1.0, split="validation"))])
    recorder.notice("careful", "warning")
    recorder.log(2, {"reward/mean": 0.75})
    recorder.log_episodes(2, [group(episode(0, 0.75, step=2))])
    recorder.close()
    return read_run(tmp_path)


def test_rewards_are_those_of_the_training_steps_in_order(played: PlayedRun) -> None:
    assert played.rewards == [0.0, None, 0.5, 0.75]


def test_groups_of_validations_are_kept_apart(played: PlayedRun) -> None:
    assert [group.key for group in played.groups] == ["train/1/t", "train/1/u", "train/2/t"]
    assert [group.key for group in played.validation_groups] == ["validation/1/t"]


def test_the_last_value_of_each_metric_counts(played: PlayedRun) -> None:
    assert played.metrics == {"reward/mean": 0.75, "tokens/trained": 9}


def test_notices_are_kept(played: PlayedRun) -> None:
    assert played.notices == ("careful",)


@pytest.mark.parametrize(
    ("given", "loggers"),
    [
        ({}, ["console", RECORDER]),
        ({"logger": "jsonl"}, ["jsonl", RECORDER]),
        ({"logger": ["jsonl", {"swanlab": {"mode": "local"}}]}, ["jsonl", {"swanlab": {"mode": "local"}}, RECORDER]),
    ],
)
def test_the_recorder_logs_beside_the_loggers_that_are_named(given: dict[str, object], loggers: list[object]) -> None:
    settings = {"seed": 3, "trainer_common": {"total_epochs": 2, **given}}
    assert add_recorder(settings) == {"seed": 3, "trainer_common": {"total_epochs": 2, "logger": loggers}}
