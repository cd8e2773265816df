"""The time of a run that has no step yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attrs import evolve

from astuner.settings.config.model import Config
from astuner_tools.dry_run import time_guess

MODEL = {
    "model_type": "llama",
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 49152,
    "tie_word_embeddings": True,
}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    monkeypatch.setattr(time_guess, "measure_speed", lambda: 1e11)
    found = Config()
    data = evolve(found.data, max_prompt_length=112, max_response_length=80)
    return evolve(found, model=evolve(found.model, path=str(tmp_path)), data=data)


def test_a_run_of_a_small_model_is_between_minutes_and_half_an_hour(config: Config) -> None:
    found = time_guess.guess_time(config, 384, 240)
    assert found is not None
    assert "2 min 4 s to 39 min 16 s" in found
    assert "(100 GFLOP/s measured)" in found
    assert "a tenth of 192 tokens" in found


def test_a_model_of_unknown_size_has_no_guess(config: Config, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert time_guess.guess_time(config, 384, 240) is None


def test_the_speed_of_this_machine_is_a_number() -> None:
    assert time_guess.measure_speed(64, 0.0) > 0
