from __future__ import annotations

from astuner.runs.training.schedule import compute_learning_rate


def _rates(steps, **options):
    settings = {"lr": 1.0, "warmup_steps": 0, "schedule": "constant", "total_steps": steps, **options}
    return [round(compute_learning_rate(step, **settings), 4) for step in range(1, steps + 1)]


def test_warm_up_rises_linearly_and_its_first_step_already_learns():
    assert _rates(6, warmup_steps=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


def test_linear_falls_to_zero_after_the_last_step():
    assert _rates(6, warmup_steps=2, schedule="linear") == [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]


def test_cosine_falls_to_zero_after_the_last_step():
    assert _rates(4, schedule="cosine") == [1.0, 0.8536, 0.5, 0.1464]
