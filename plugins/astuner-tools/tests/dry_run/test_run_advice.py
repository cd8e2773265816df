from __future__ import annotations

import json
from types import SimpleNamespace

from astuner.settings.config.model import Config, Model
from astuner.settings.memory_estimate.parts import Hardware
from astuner_tools.dry_run.run_advice import advise, estimate_time

GPUS, NONE = Hardware(gpus=2), Hardware(gpus=0)


def load(*keys):
    return SimpleNamespace(config=Config(backbone="local", model=Model()), user_keys=frozenset(keys))


def test_time_is_estimated_from_the_steps_that_were_measured(tmp_path):
    rows = [{"step": n, "kind": "train", "time/step_s": 6.0, "signal/episodes": 12} for n in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = estimate_time(tmp_path / "metrics.jsonl", 600)
    assert found == "about 5 min 0 s, at the 0.5 s an episode of 2 steps in this directory"


def test_no_time_is_made_up(tmp_path):
    assert estimate_time(tmp_path / "metrics.jsonl", 600) is None


def test_defaults_for_gpus_are_named_on_a_machine_without():
    (said,) = advise(load("data.train_batch_size"), NONE, trains=True)
    assert "the defaults of rollout.num_repeat, rollout.max_model_len, trainer_common.total_training_steps" in said
    assert list(advise(load("data.train_batch_size"), NONE, trains=False)) == []
    assert list(advise(load(), GPUS, trains=True)) == []
