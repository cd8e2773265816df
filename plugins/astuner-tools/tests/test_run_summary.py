"""A run in one line, of whatever state it is."""

from __future__ import annotations

from astuner.runs.inspection import Run
from astuner_tools.run_summary import summarise

ROWS = [
    {"step": 0, "kind": "validation", "val/reward/mean": 0.25},
    {"step": 1, "kind": "train", "reward/mean": 0.5, "time/step_s": 2.0, "tokens/generated": 10.0},
    {"step": 2, "kind": "train", "reward/mean": 0.75, "time/step_s": 3.0, "tokens/generated": 20.0},
    {"step": 2, "kind": "validation", "val/reward/mean": 1.0},
    {"step": 3, "kind": "train", "reward/mean": None, "time/step_s": 1.0, "tokens/generated": 5.0},
]


def test_a_summary_has_the_first_and_last_reward_the_best_validation_time_and_tokens(write_run):
    found = summarise(Run(write_run(rows=ROWS, settings={"trainer_common": {"total_training_steps": 9}})))
    assert (found.status, found.steps, found.planned_steps) == ("finished", 3, 9)
    assert (found.first_reward, found.last_reward) == (0.5, 0.75)
    assert (found.best_validation, found.best_step) == (1.0, 2)
    assert (found.time_s, found.tokens) == (6.0, 35)


def test_of_a_damaged_run_there_is_what_can_be_read(write_run, stored):
    path = write_run(rows=ROWS, episodes=stored)
    for name in ("state.json", "run.json", "config.yaml"):
        (path / name).write_text("{")
    found = summarise(Run(path, lambda text: None))
    assert (found.status, found.backbone, found.planned_steps, found.steps, found.tokens) == ("damaged", None, None, 3, 35)
