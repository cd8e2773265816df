"""The loss of single tokens: clipped policy gradient, importance weight, divergence from the reference."""

from __future__ import annotations

import torch
from torch import Tensor

from astuner_local.trainer.options import KlType, TrainerOptions


def policy_loss(logp: Tensor, old: Tensor, sampler: Tensor, advantages: Tensor, options: TrainerOptions) -> tuple[Tensor, Tensor]:
    """Return the losses [R] and the probability ratios π/π_old [R].

    PPO's -min(r·A, clip(r)·A), times the truncated importance weight min(π_old/μ, C) where one is asked for. `old` carries no
    gradient.
    """
    ratio = torch.exp(logp - old)
    clipped = ratio.clamp(1 - options.clip_ratio_low, 1 + options.clip_ratio_high)
    loss = -torch.minimum(ratio * advantages, clipped * advantages)
    if options.rollout_is_threshold is not None:
        loss = loss * torch.exp(old - sampler).clamp(max=options.rollout_is_threshold)
    return loss, ratio.detach()


def divergence(logp: Tensor, reference: Tensor, kind: KlType) -> Tensor:
    """Return the estimates [R] of KL(π‖ρ) from d = log π - log ρ: k1 = d, |d|, k2 = d²/2, k3 = e^(-d) - 1 + d."""
    d = logp - reference
    match kind:
        case "kl":
            return d
        case "abs":
            return d.abs()
        case "mse":
            return 0.5 * d.square()
        case "low_var_kl":
            # e^20 is past anything that could be learned from; beyond it only an overflow would come.
            return torch.expm1((-d).clamp(max=20.0)) + d
