"""How long a run may take on this CPU, before any step of it is measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from astuner.episodes.transcript.terminal_text import format_seconds
from astuner.settings.memory_estimate.model_file import read_model_config
from astuner.settings.memory_estimate.model_shape import ModelShape

if TYPE_CHECKING:
    from astuner.settings.config.model import Config

FORWARD, BACKWARD = 2, 4
"""Operations for each parameter and token."""
SHORTEST = 0.1
"""The part of their room that episodes with short answers take, of which siblings share the prompt."""
OVERHEAD_S = 0.02, 0.2
"""Seconds an episode takes whatever the model: the agent, the gateway, the judge."""
SLOWEST = 0.5
"""The part of the measured speed that small matrices and the sampling of single tokens reach."""


def guess_time(config: Config, training: int, validation: int) -> str | None:
    """Return a range for so many episodes, from the model's size and this CPU's speed; None if the size is unknown."""
    shape = ModelShape.from_config(read_model_config(config.model.path, fetch=False) or {})
    if shape is None:
        return None
    room = min(config.rollout.max_model_len, config.data.max_prompt_length + config.data.max_response_length)
    reference = FORWARD if config.trainer_common.use_kl_loss else 0
    passes = (training + validation) * FORWARD + training * (FORWARD + BACKWARD + reference)
    longest, speed = passes * room * shape.parameters, measure_speed()
    fast = SHORTEST * longest / speed + OVERHEAD_S[0] * (training + validation)
    slow = longest / (SLOWEST * speed) + OVERHEAD_S[1] * (training + validation)
    return (
        f"a guess before the first step: {format_seconds(fast)} to {format_seconds(slow)} on this CPU alone "
        f"({speed / 1e9:,.0f} GFLOP/s measured), the first if episodes take a tenth of {room:,} tokens, the last if all of them"
    )


def measure_speed(size: int = 768, budget_s: float = 0.2) -> float:
    """Return the most floating-point operations a second of a product of matrices in float32, measured in a moment."""
    import numpy as np

    matrix = np.ones((size, size), np.float32)
    best, end = 0.0, time.perf_counter() + budget_s
    while best == 0.0 or time.perf_counter() < end:
        began = time.perf_counter()
        matrix @ matrix
        best = max(best, 2 * size**3 / max(time.perf_counter() - began, 1e-9))
    return best
