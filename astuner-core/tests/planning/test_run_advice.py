from __future__ import annotations

import json
from types import SimpleNamespace

from astuner.settings.config.model import Config, Model
from astuner.settings.memory_estimate.parts import Hardware
from astuner.settings.planning.run_advice import advise, estimate_time

GPUS, NONE = Hardware(gpus=2), Hardware(gpus=0)


def load(tmp_path, *keys, context=None, backbone="local"):
    (tmp_path / "config.json").write_text(json.dumps({} if context is None else {"max_position_embeddings": context}))
    return SimpleNamespace(config=Config(backbone=backbone, model=Model(path=str(tmp_path))), user_keys=frozenset(keys))


def test_time_is_estimated_from_the_steps_that_were_measured(tmp_path):
    rows = [{"step": n, "kind": "train", "time/step_s": 6.0, "signal/episodes": 12} for n in (1, 2)]
    (tmp_path / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    found = estimate_time(tmp_path / "metrics.jsonl", 600)
    assert found == "about 5 min 0 s, at the 0.5 s an episode of 2 steps in this directory"


def test_no_time_is_made_up(tmp_path):
    assert estimate_time(tmp_path / "metrics.jsonl", 600) is None


def test_a_context_beyond_the_models_own_is_named(tmp_path):
    (said,) = advise(load(tmp_path, context=512), GPUS, trains=True)
    assert said.startswith("rollout.max_model_len is 18,000, and the model was made for contexts of 512 ")


def test_a_context_that_fits_is_not_mentioned(tmp_path):
    assert list(advise(load(tmp_path, context=32768), GPUS, trains=True)) == []
    assert list(advise(load(tmp_path), GPUS, trains=True)) == []


def test_defaults_for_gpus_are_named_on_a_machine_without(tmp_path):
    (said,) = advise(load(tmp_path, "data.train_batch_size"), NONE, trains=True)
    assert "the defaults of rollout.num_repeat, rollout.max_model_len, trainer_common.total_training_steps" in said
    assert list(advise(load(tmp_path, "data.train_batch_size"), NONE, trains=False)) == []
