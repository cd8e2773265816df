"""The learning rate as a function of the step: nothing to save, nothing to restore."""

from __future__ import annotations

import math


def compute_learning_rate(step: int, *, lr: float, warmup_steps: int, schedule: str, total_steps: int) -> float:
    """Return the rate of a step (from 1). `cosine` and `linear` would reach zero one step after the last."""
    done = step - 1
    if done < warmup_steps:
        return lr * (done + 1) / warmup_steps
    if schedule == "constant":
        return lr
    progress = min(1.0, (done - warmup_steps) / max(1, total_steps - warmup_steps))
    if schedule == "linear":
        return lr * (1 - progress)
    return lr * 0.5 * (1 + math.cos(math.pi * progress))
