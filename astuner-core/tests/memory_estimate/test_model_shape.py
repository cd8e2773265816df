"""The sizes of a decoder, from its `config.json`."""

from __future__ import annotations

from typing import Any

import pytest

from astuner.settings.memory_estimate.model_shape import ModelShape

QWEN = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
}


def read(**changes: Any) -> ModelShape:
    shape = ModelShape.from_config({**QWEN, **changes})
    assert shape is not None
    return shape


def test_a_model_has_its_published_number_of_parameters() -> None:
    assert read().parameters == 494_032_768


def test_an_output_layer_of_its_own_is_another_table() -> None:
    assert read(tie_word_embeddings=False).parameters - read().parameters == 151936 * 896


@pytest.mark.parametrize(
    ("config", "dtype"), [({}, "bfloat16"), ({"dtype": "float16"}, "float16"), ({"torch_dtype": None}, "float32")]
)
def test_the_dtype_of_the_checkpoint_is_read_from_the_key_of_each_version(config: dict[str, Any], dtype: str) -> None:
    assert read(**config).stored_dtype == dtype


def test_adapters_on_all_projections_of_every_layer() -> None:
    width, keys, inner = 896, 128, 4864
    layer = 2 * (width + width) + 2 * (width + keys) + 3 * (width + inner)
    assert read().count_adapter_parameters(8) == 24 * 8 * layer


def test_adapters_on_chosen_projections() -> None:
    assert read().count_adapter_parameters(8, ("q_proj", "v_proj")) == 24 * 8 * (896 + 896 + 896 + 128)


def test_keys_and_values_of_a_token() -> None:
    assert read().count_kv_bytes(2) == 2 * 24 * 128 * 2


def test_a_model_of_text_and_images_is_counted_by_its_text() -> None:
    assert ModelShape.from_config({"model_type": "several", "text_config": QWEN}) == read(torch_dtype=None, model_type="qwen2")


@pytest.mark.parametrize(
    "changes", [{"num_experts": 8}, {"kv_lora_rank": 512}, {"hidden_size": None}, {"num_hidden_layers": "many"}]
)
def test_what_the_formulas_do_not_count_has_no_shape(changes: dict[str, Any]) -> None:
    assert ModelShape.from_config({**QWEN, **changes}) is None
