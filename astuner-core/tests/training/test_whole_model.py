from __future__ import annotations

import json
from pathlib import Path

import pytest

from astuner.contract.errors import ConfigError
from astuner.runs.training.adapters import check_whole_model


def test_adapters_are_refused_where_a_whole_model_is_needed_with_the_remedy(tmp_path: Path):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "org/base", "r": 4}))
    with pytest.raises(
        ConfigError, match=r"LoRA adapters of org/base, and the engine 'x' begins with a whole model.*--merge-lora"
    ):
        check_whole_model(str(tmp_path), "the engine 'x'")


@pytest.mark.parametrize("path", ["org/name", "."])
def test_any_other_model_is_left_to_who_loads_it(path: str):
    check_whole_model(path, "the engine 'x'")


def test_weights_in_a_pickle_and_code_are_refused_before_an_engine_reads_them(tmp_path: Path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"weights in a pickle \(pytorch_model\.bin\)"):
        check_whole_model(str(tmp_path), "the engine 'x'")
    (tmp_path / "config.json").write_text('{"_attn_implementation": "org/kernel"}')
    with pytest.raises(ConfigError, match=r"_attn_implementation asks for code \(org/kernel\)"):
        check_whole_model(str(tmp_path), "the engine 'x'")
