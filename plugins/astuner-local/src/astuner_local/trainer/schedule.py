"""The learning rate as a function of the step: nothing to save, nothing to restore."""

from __future__ import annotations

import math

from astuner_local.trainer.options import TrainerOptions


def learning_rate(step: int, options: TrainerOptions) -> float:
    """Return the rate of a step (from 1). The falling schedules would reach zero one step after the last."""
    done, warmup = step - 1, options.lr_warmup_steps
    if done < warmup:
        return options.lr * (done + 1) / warmup
    if options.lr_scheduler_type == "constant":
        return options.lr
    progress = min(1.0, (done - warmup) / max(1, options.total_steps - warmup))
    if options.lr_scheduler_type == "linear":
        return options.lr * (1 - progress)
    return options.lr * 0.5 * (1 + math.cos(math.pi * progress))
