"""The limit of one pass through a model, on a device."""

from __future__ import annotations

from typing import Any

import torch

from astuner_local.trainer.pass_size import PassLimit, count_affordable_tokens, count_token_floats


def measure_limit(config: Any, device: torch.device) -> PassLimit:
    """Return how large one pass may be, for a transformers config; on CUDA a quarter of the free memory decides."""
    text = config.get_text_config()
    layers, width = text.num_hidden_layers, text.hidden_size
    inner = getattr(text, "intermediate_size", None) or 4 * width
    cuda = device.type == "cuda"
    free = torch.cuda.mem_get_info(device)[0] // 4 if cuda else 0
    tokens = count_affordable_tokens(layers=layers, width=width, inner=inner, cuda=cuda, free=free)
    return PassLimit(tokens=tokens, mask_entries=count_token_floats(layers=layers, width=width, inner=inner))
