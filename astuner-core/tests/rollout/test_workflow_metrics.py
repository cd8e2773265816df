from __future__ import annotations

import numpy as np

from astuner.rollout.workflow_metrics import DroppedMetrics, find_numbers

GIVEN = {
    "turns": 3,
    "share": np.float32(0.5),
    "calls": np.int64(2),
    "won": np.bool_(True),
    "ended": True,
    "side": "werewolf",
    "rounds": [1, 2],
    "nothing": None,
    "loss": float("nan"),
    "many": np.zeros(3),
}


def test_numbers_of_numpy_and_truth_values_are_numbers() -> None:
    assert find_numbers(GIVEN) == {"turns": 3.0, "share": 0.5, "calls": 2.0, "won": 1.0, "ended": 1.0}


def test_what_is_not_a_finite_number_is_reported_once_with_its_type_and_how_often() -> None:
    dropped = DroppedMetrics()
    dropped.add({"side": "werewolf", "loss": float("inf")})
    dropped.add({"side": "villager", "turns": 1})
    notices = list(dropped.take_notices())
    assert [text.partition(" episodes")[0] for text in notices] == [
        "WorkflowOutput.log_metrics['side'] must be a finite number and was str in 2",
        "WorkflowOutput.log_metrics['loss'] must be a finite number and was inf in 1",
    ]
    dropped.add({"side": "villager"})
    assert list(dropped.take_notices()) == []
