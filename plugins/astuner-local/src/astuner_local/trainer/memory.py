"""The token limit of one pass through a model, on a device."""

from __future__ import annotations

from typing import Any

import torch

from astuner_local.trainer.pass_size import count_affordable_tokens


def affordable_tokens(config: Any, device: torch.device) -> int:
    """Return how many tokens one pass may have, for a transformers config; on CUDA a quarter of the free memory decides."""
    text = config.get_text_config()
    width = text.hidden_size
    cuda = device.type == "cuda"
    return count_affordable_tokens(
        layers=text.num_hidden_layers,
        width=width,
        inner=getattr(text, "intermediate_size", None) or 4 * width,
        cuda=cuda,
        free=torch.cuda.mem_get_info(device)[0] // 4 if cuda else 0,
    )
