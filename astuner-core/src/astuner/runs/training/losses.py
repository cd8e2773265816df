"""The loss of single tokens: clipped policy gradient, importance weight, divergence from the reference.

One formula for every backbone, written with methods of the given tensors, so that it imports nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from attrs import field, frozen
from attrs.validators import ge, gt, in_, le, optional

if TYPE_CHECKING:
    from torch import Tensor

KlType = Literal["kl", "abs", "mse", "low_var_kl"]
"""Estimators of the divergence from the reference, in verl's names: k1, its absolute value, k2, k3."""

MOST_LOG_RATIO = 20.0
"""Log-ratios of two policies are held within ± this before `exp`, as in verl."""

MOST_K3 = 10.0
"""The largest k3 of a token, as in verl."""


@frozen(kw_only=True)
class LossOptions:
    """How far a policy may move in a step, how much a token may weigh, and what is added to its loss."""

    clip_ratio_low: float = field(default=0.2, validator=[ge(0), le(1)])
    """How far below 1 the probability ratio may fall before it stops counting, for negative advantages."""
    clip_ratio_high: float = field(default=0.2, validator=ge(0))
    """How far above 1 it may rise, for positive ones."""
    clip_ratio_c: float = field(default=3.0, validator=gt(1))
    """Largest ratio that counts for negative advantages: dual clip (Ye et al. 2019, arXiv 1912.09729)."""
    rollout_is_threshold: float | None = field(default=None, validator=optional(gt(0)))
    """Upper bound C of the importance weight min(π_old/μ, C) against the sampler's μ; None applies no weights."""
    kl_loss_coef: float = field(default=0.0, validator=ge(0))
    """Weight of the divergence from the reference; 0 for none."""
    kl_loss_type: KlType = field(default="low_var_kl", validator=in_(get_args(KlType)))
    """Its estimator. `kl` has an expected gradient of zero; `mse` has the right one."""


@frozen(eq=False)
class TokenTerms:
    """The losses of some tokens, with measurements of each; tensors of one shape."""

    loss: Tensor
    """With a gradient, and not yet multiplied by the tokens' shares."""
    measured: Mapping[str, Tensor]
    """By the names of `astuner.runs.training.signal.TOKEN_SUMS`, without `tokens` and `entropy`: the losses times the shares, and
    `clip/low`, `clip/high` and `clip/dual` as booleans."""
    drift: Tensor
    """How far the log-probabilities of trainer and sampler are apart."""
    ratio: Tensor
    """π/π_old, which the loss is weighed by."""
    weight: Tensor
    """Of the policy gradient: the advantage times any importance weight."""


def token_terms(
    logp: Tensor,
    *,
    old: Tensor,
    sampler: Tensor,
    advantages: Tensor,
    shares: Tensor,
    options: LossOptions,
    reference: Tensor | None = None,
    trainer: Tensor | None = None,
) -> TokenTerms:
    """Return the policy's loss plus any divergence from the reference, and the values to sum over the tokens.

    `trainer` are the log-probabilities that are compared with the sampler's; those of the step's start (`old`) when None. Places
    that are padded are for the caller to mask: in `logp`, so that they have no gradient, and in what is returned.
    """
    now = logp.detach()
    policy, ratio = policy_loss(logp, old, sampler, advantages, options)
    loss = policy
    kl = k3 = now.new_zeros(now.shape)
    if reference is not None:
        kl = options.kl_loss_coef * divergence(logp, reference, options.kl_loss_type)
        k3 = divergence(now, reference, "low_var_kl")
        loss = policy + kl
    drift = (old if trainer is None else trainer) - sampler
    measured = {
        "loss/policy": policy.detach() * shares,
        "loss/kl": kl.detach() * shares,
        "kl": k3,
        "ratio": drift.exp(),
        "exp_abs": drift.abs().exp(),
        "clip/low": (ratio < 1 - options.clip_ratio_low) & (advantages < 0),
        "clip/high": (ratio > 1 + options.clip_ratio_high) & (advantages > 0),
        "clip/dual": (ratio > options.clip_ratio_c) & (advantages < 0),
    }
    importance = importance_weight(old, sampler, options)
    return TokenTerms(loss, measured, drift, ratio, advantages if importance is None else advantages * importance)


def stack_token_values(logp: Tensor, terms: TokenTerms, entropy: Tensor | None, reference: Tensor | None) -> Tensor:
    """Return what is recorded of some tokens in the order of `token_values.STACKED`, float32 [6, …], without a gradient."""
    now = logp.detach().float()
    missing = now.new_full(now.shape, float("nan"))
    clipped = terms.measured
    clips = clipped["clip/low"] * 1.0 + clipped["clip/high"] * 2.0
    found = (
        now,
        missing if entropy is None else entropy.detach(),
        missing if reference is None else reference,
        terms.ratio,
        terms.weight,
        clips.where(clipped["clip/dual"].logical_not(), 3.0),
    )
    stacked = now.new_empty((len(found), *now.shape))
    for place, values in enumerate(found):
        stacked[place] = values
    return stacked


def policy_loss(logp: Tensor, old: Tensor, sampler: Tensor, advantages: Tensor, options: LossOptions) -> tuple[Tensor, Tensor]:
    """Return the losses and the probability ratios π/π_old, in the shape of `logp`.

    PPO's -min(r·A, clip(r)·A), at most -c·A for negative advantages, times the truncated importance weight min(π_old/μ, C) where
    one is asked for. `old` carries no gradient.
    """
    ratio = (logp - old).clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO).exp()
    clipped = ratio.clamp(1 - options.clip_ratio_low, 1 + options.clip_ratio_high)
    loss = -(ratio * advantages).minimum(clipped * advantages)
    loss = loss.minimum(-options.clip_ratio_c * advantages).where(advantages < 0, loss)
    importance = importance_weight(old, sampler, options)
    return loss if importance is None else loss * importance, ratio.detach()


def importance_weight(old: Tensor, sampler: Tensor, options: LossOptions) -> Tensor | None:
    """Return min(π_old/μ, C) of each token; None if no weight is asked for."""
    bound = options.rollout_is_threshold
    return None if bound is None else (old - sampler).exp().clamp(max=bound)


def divergence(logp: Tensor, reference: Tensor, kind: KlType) -> Tensor:
    """Return the estimates of KL(π‖ρ) from d = log π - log ρ: k1 = d, |d|, k2 = d²/2, k3 = e^(-d) - 1 + d, at most 10.

    Beyond its bound k3 has no gradient, so that single tokens do not decide a step.
    """
    d = logp - reference
    match kind:
        case "kl":
            return d
        case "abs":
            return d.abs()
        case "mse":
            return 0.5 * d.square()
        case "low_var_kl":
            towards = (-d).clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO)
            return (towards.expm1() - towards).clamp(max=MOST_K3)
