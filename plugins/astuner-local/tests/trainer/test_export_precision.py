"""The precision of an exported model is the one asked for, also where config.json says what the weights are not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoConfig, Qwen2Config, Qwen2ForCausalLM

from astuner.runs.training.export import export_model


@pytest.fixture
def mislabelled(tmp_path: Path) -> Path:
    """Weights of float32 that config.json calls bfloat16, as verl writes them."""
    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "vocab_size": 20}
    config = Qwen2Config(**sizes, num_attention_heads=2, num_key_value_heads=2)
    Qwen2ForCausalLM(config).save_pretrained(tmp_path / "model")
    config.dtype = torch.bfloat16
    config.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_weights_and_label_are_of_the_precision_asked_for(mislabelled: Path, tmp_path: Path, dtype: str) -> None:
    export_model(mislabelled, tmp_path / "out", dtype=dtype)
    wanted = getattr(torch, dtype)
    assert {value.dtype for value in load_file(tmp_path / "out" / "model.safetensors").values()} == {wanted}
    assert AutoConfig.from_pretrained(tmp_path / "out").dtype == wanted
