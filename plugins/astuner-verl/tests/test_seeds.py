"""Which requests carry a seed."""

from __future__ import annotations

from typing import Any

import pytest

from astuner_verl.seeds import sends_seeds

QWEN2, QWEN3 = "Qwen2ForCausalLM", "Qwen3ForCausalLM"


@pytest.mark.parametrize(
    ("engine", "architecture", "settings", "sends"),
    [
        ("vllm", QWEN3, {}, True),
        ("vllm", QWEN2, {}, False),
        ("vllm", "", {}, False),
        ("vllm", QWEN2, {"wanted": True}, True),
        ("vllm", QWEN2, {"variables": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}, True),
        ("vllm", QWEN3, {"variables": {"VLLM_USE_V2_MODEL_RUNNER": "0"}}, False),
        ("transformers", QWEN2, {}, True),
        ("sglang", QWEN3, {"wanted": True}, False),
    ],
)
def test_a_seed_is_sent_where_it_costs_nothing_or_is_asked_for(
    engine: str, architecture: str, settings: dict[str, Any], sends: bool
) -> None:
    chosen: dict[str, Any] = {"wanted": False, "variables": {}, **settings}
    assert sends_seeds(engine, architecture, **chosen) is sends
