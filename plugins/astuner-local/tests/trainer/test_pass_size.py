from __future__ import annotations

import torch
from transformers import Qwen2Config

from astuner_local.trainer.memory import measure_limit

CPU = torch.device("cpu")


def test_a_tiny_model_is_run_in_the_largest_passes():
    tiny = Qwen2Config(hidden_size=96, intermediate_size=192, num_hidden_layers=2)
    assert measure_limit(tiny, CPU).tokens == 8192


def test_passes_of_a_larger_model_are_smaller():
    half_a_billion = Qwen2Config(hidden_size=896, intermediate_size=4864, num_hidden_layers=24)
    assert measure_limit(half_a_billion, CPU).tokens == 1172


def test_a_huge_model_is_run_all_the_same():
    huge = Qwen2Config(hidden_size=10**5, intermediate_size=10**6, num_hidden_layers=1000)
    assert measure_limit(huge, CPU).tokens == 1


def test_a_mask_takes_the_place_of_the_activations_of_a_token_by_its_entries():
    half_a_billion = Qwen2Config(hidden_size=896, intermediate_size=4864, num_hidden_layers=24)
    assert measure_limit(half_a_billion, CPU).mask_entries == 24 * (10 * 896 + 6 * 4864)
