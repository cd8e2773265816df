"""The token limit of one pass through a model."""

from __future__ import annotations

from typing import Any

import torch

_CPU_BYTES = 4 << 30
_CPU_TOKENS, _CUDA_TOKENS = 8192, 65536


def affordable_tokens(config: Any, device: torch.device) -> int:
    """Return how many tokens' activations 4 GiB hold, on CUDA a quarter of the free memory, for a transformers config.

    At most 8192, on CUDA 65536: more gains nothing. The CPU's limit does not depend on the machine, so that results do not.
    """
    text = config.get_text_config()
    width = text.hidden_size
    # Counted with saved-tensor hooks on Qwen2: 6.5 x width + 4 x intermediate + heads, per token and layer; gradients come on top
    floats: int = text.num_hidden_layers * (10 * width + 6 * (getattr(text, "intermediate_size", None) or 4 * width))
    if device.type == "cuda":
        return max(1, min(_CUDA_TOKENS, torch.cuda.mem_get_info(device)[0] // 4 // (4 * floats)))
    return max(1, min(_CPU_TOKENS, _CPU_BYTES // (4 * floats)))
