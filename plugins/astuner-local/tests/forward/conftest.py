from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPTNeoXConfig, LlamaConfig, MistralConfig, Qwen2Config, Qwen3Config

VOCAB = 61
CONFIGS: dict[str, type] = {
    "qwen2": Qwen2Config,
    "qwen3": Qwen3Config,
    "llama": LlamaConfig,
    "mistral": MistralConfig,
    "gpt_neox": GPTNeoXConfig,
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _model(family: str, **settings: Any) -> Any:
    torch.manual_seed(0)
    values = {
        "vocab_size": VOCAB,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 256,
        "initializer_range": 0.2,
        "bos_token_id": None,
        "eos_token_id": 1,
        "pad_token_id": None,
    }
    model = AutoModelForCausalLM.from_config(CONFIGS[family](**(values | settings)))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:  # Gains of one and biases of zero would hide that they are left out.
                parameter.normal_(1.0 if "norm" in name and "bias" not in name else 0.0, 0.2)
    return model


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """Makes a small causal language model with random weights, gains and biases."""
    return _model


@pytest.fixture
def make_adapted() -> Callable[..., Any]:
    """Puts LoRA adapters with random weights on a model."""
    from peft import LoraConfig, get_peft_model

    def adapt(model: Any, **settings: Any) -> Any:
        values = {"r": 4, "lora_alpha": 8, "target_modules": "all-linear", "task_type": "CAUSAL_LM"} | settings
        adapted = get_peft_model(model, LoraConfig(**values))
        torch.manual_seed(1)
        with torch.no_grad():
            for name, parameter in adapted.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(0, 0.2)
        return adapted

    return adapt


@pytest.fixture
def packed_logits() -> Callable[..., Any]:
    """Runs sequences through a forward as one packed list; logits of all tokens, end to end."""
    from astuner_local.forward.choose import make_separate_attend

    def run(forward: Any, sequences: list[list[int]]) -> torch.Tensor:
        lengths = tuple(map(len, sequences))
        ids = torch.tensor([token for sequence in sequences for token in sequence])
        positions = torch.cat([torch.arange(length) for length in lengths])
        return forward.logits(forward.hidden(ids, positions, make_separate_attend(lengths, forward.scale)))

    return run


@pytest.fixture
def own_logits() -> Callable[..., Any]:
    """Runs sequences through the model's own forward pass, one by one."""

    def run(model: Any, sequences: list[list[int]]) -> torch.Tensor:
        return torch.cat([model(input_ids=torch.tensor([sequence]), use_cache=False).logits[0] for sequence in sequences])

    return run


@pytest.fixture
def sequences() -> list[list[int]]:
    """Three sequences of different lengths."""
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(0, VOCAB, (length,), generator=generator).tolist() for length in (1, 23, 9)]
