"""Whether requests carry a seed: reproducible sampling, where the engine does not pay for it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from astuner.settings.config.pretrained import guard_loading

V2_ARCHITECTURES = frozenset(
    {
        "DeepseekV2ForCausalLM",
        "GraniteMoeForCausalLM",
        "LlamaForCausalLM",
        "MistralForCausalLM",
        "Qwen2MoeForCausalLM",
        "Qwen3ForCausalLM",
    }
)
"""Models that vLLM 0.24 runs with its second model runner (`vllm/config/vllm.py`), which draws from seeds in one kernel.

The first runner draws for one seeded request after the other, with a kernel launch each per token.
"""
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
"""vLLM's variable that chooses the runner for every model."""


def sends_seeds(engine: str, architecture: str, *, wanted: bool, variables: Mapping[str, str] = os.environ) -> bool:
    """Whether requests to an engine carry a seed; `wanted` is whether the user set `rollout.seed`."""
    if engine == "sglang":
        # It has none with its own name.
        return False
    if engine != "vllm" or wanted:
        return True
    chosen = variables.get(RUNNER, "").strip().lower()
    return chosen in ("1", "true") if chosen else architecture in V2_ARCHITECTURES


def read_architecture(model: str) -> str:
    """Return the architecture that a model's `config.json` names; empty if it names none."""
    from transformers import AutoConfig

    with guard_loading(model):
        return next(iter(AutoConfig.from_pretrained(model, trust_remote_code=False).architectures or ()), "")
