"""The loop uses what a learner offers: its engine, its weights, its reference, its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

FILE = Path(__file__).with_name("serving_backbone.py")
TASKS = [{"task_id": name, "main_query": f"{name}?", "answer": "4"} for name in ("2+2", "1+3", "8-4")]
SETTINGS: dict[str, Any] = {
    "data": {"train_batch_size": 1},
    "rollout": {"name": "scripted", "scripted": {"replies": ["4"]}, "num_repeat": 2},
}


def trainer(**changes: Any) -> dict[str, Any]:
    return {**SETTINGS, "trainer_common": {"total_training_steps": 3, **changes}}


@pytest.mark.parametrize("backbone", ["ServingBackbone", "OverlappingBackbone"])
def test_the_engine_is_given_the_weights_after_each_step(run: Any, backbone: str):
    played = run(tasks=TASKS, backbone=f"{FILE}:{backbone}", settings=trainer())
    assert (played.metrics["served_before"], played.metrics["served_in_order"]) == (2.0, 1.0)


def test_every_sample_is_compared_with_the_reference_when_that_is_part_of_the_reward(run: Any):
    settings = trainer(algorithm={"use_kl_in_reward": True})
    assert run(tasks=TASKS, backbone=f"{FILE}:ServingBackbone", settings=settings).metrics["compared"] == 6.0
