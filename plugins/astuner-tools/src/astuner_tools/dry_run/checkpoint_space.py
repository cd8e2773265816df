"""The space that the checkpoints of a run take."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from astuner.settings.config.model import Config
    from astuner.settings.memory_estimate.model_shape import ModelShape

BYTES = 12
"""Of a trained parameter: its weight and two moments in float32."""


def describe_checkpoints(config: Config, shape: ModelShape | None, steps: int, *, validates: bool) -> str:
    """Return how many checkpoints are kept at the end of a run at most, why, and about how large they are."""
    trainer = config.trainer_common
    every = trainer.save_freq
    saved = {*range(every, steps + 1, every), steps} if every > 0 else {steps}
    count = min(len(saved), trainer.max_checkpoints_to_keep or len(saved))
    best = validates and trainer.keep_best is not False
    reasons = [f"every {every} steps"] if every > 0 else []
    reasons += ["the last", *(["the best by validation (keep_best)"] if best else [])]
    text = f"at most {count + best}: {', '.join(reasons)}"
    if shape is None:
        return text
    rank, targets = sum(config.model.lora_ranks), config.model.target_modules
    trained = shape.count_adapter_parameters(rank, targets) if rank else shape.parameters
    return f"{text}; about {_format_bytes(BYTES * trained)} each, {_format_bytes((count + best) * BYTES * trained)} in all"


def _format_bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{max(count / 1e6, 0.1):.1f} MB"
