"""The loss of a step: the policy gradient's by a `PolicyLoss`, a correction for the sampler, the divergence from a reference.

One formula for every backbone, over flat tensors of trained tokens.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, get_args

from attrs import evolve, field, fields, frozen
from attrs.validators import ge, gt, in_, le, optional

from astuner.contract.errors import PluginError
from astuner.contract.protocols import LossTraits, PolicyLoss, TrainedTokens, read_traits
from astuner.contract.protocols.losses import MOST_LOG_RATIO

if TYPE_CHECKING:
    from torch import Tensor

    from astuner.contract.protocols import RunInfo
    from astuner.settings.config.trainer import Algorithm

KlType = Literal["kl", "abs", "mse", "low_var_kl"]
"""Estimators of the divergence from the reference, in verl's names: k1, its absolute value, k2, k3."""

MOST_K3 = 10.0
"""The largest k3 of a token, as in verl."""


@frozen(kw_only=True)
class PpoClip:
    """PPO's -min(r·A, clip(r)·A) (arXiv 1707.06347), at most -c·A for A < 0 (arXiv 1912.09729); r = π/π_old."""

    traits = LossTraits(per_token=True)

    clip_ratio_low: float = field(default=0.2, validator=[ge(0), le(1)])
    """How far below 1 the ratio may fall before it stops counting, for negative advantages."""
    clip_ratio_high: float = field(default=0.2, validator=ge(0))
    """How far above 1 it may rise, for positive ones."""
    clip_ratio_c: float = field(default=3.0, validator=gt(1))
    """Largest ratio that counts for negative advantages."""

    @classmethod
    def from_run(cls, options: Any, run_info: RunInfo) -> PpoClip:
        """Read the bounds `trainer_common.clip_ratio_…`."""
        common = run_info.config.trainer_common
        return cls(clip_ratio_low=common.clip_ratio_low, clip_ratio_high=common.clip_ratio_high, clip_ratio_c=common.clip_ratio_c)

    def compute(self, tokens: TrainedTokens) -> Tensor:
        """Return the loss of each token."""
        advantages, ratio = tokens.advantages, tokens.log_ratio().exp()
        clipped = ratio.clamp(1 - self.clip_ratio_low, 1 + self.clip_ratio_high)
        loss = -(ratio * advantages).minimum(clipped * advantages)
        return loss.minimum(-self.clip_ratio_c * advantages).where(advantages < 0, loss)


@frozen(kw_only=True)
class Correction:
    """What a token counts because another engine, or other weights, sampled it: by w = π_old/μ, in verl's terms.

    Importance weights: min(w, C), truncated; with a lower bound w between the bounds and 0 outside of them, masked (IcePop). w is
    the token's own, or the product over its sample. Rejection: what is too far off policy counts 0, by k1 = -log w,
    k2 = (log w)²/2 or k3 = w - 1 - log w, of the token, or summed, averaged or the largest of its sample.
    """

    rollout_is: Literal["token", "sequence"] = "token"
    rollout_is_threshold: float | None = field(default=None, validator=optional(gt(0)))
    """The upper bound C; None weighs nothing."""
    rollout_is_lower: float | None = field(default=None, validator=optional(gt(0)))
    """The lower bound; with it, weights beyond the bounds are 0."""
    rollout_rs: str | None = None
    """None rejects nothing."""
    rollout_rs_threshold: float = field(default=2.0, validator=gt(0))
    """The largest measure; for k1 the largest e^(k1), and the smallest is `rollout_rs_lower`."""
    rollout_rs_lower: float | None = field(default=None, validator=optional(gt(0)))
    """None: 1 / `rollout_rs_threshold`."""

    @classmethod
    def of(cls, algorithm: Algorithm) -> Correction:
        """Read the keys `trainer_common.algorithm.rollout_…`."""
        return cls(**{item.name: getattr(algorithm, item.name) for item in fields(cls)})

    @property
    def per_token(self) -> bool:
        """Whether the factor of a token depends on that token alone."""
        weighs_samples = self.rollout_is == "sequence" and self.rollout_is_threshold is not None
        return not weighs_samples and (self.rollout_rs or "token").startswith("token")

    def compute(self, tokens: TrainedTokens) -> tuple[Tensor | None, dict[str, Tensor]]:
        """Return the factor of each token, None for 1, and what is measured of them; without a gradient."""
        log_ratio, factor, measured = tokens.old - tokens.sampler, None, {}
        if self.rollout_is_threshold is not None:
            shared = tokens.add_up(log_ratio) if self.rollout_is == "sequence" else log_ratio
            weight = shared.clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO).exp()
            beyond = weight > self.rollout_is_threshold
            if self.rollout_is_lower is None:
                factor = weight.clamp(max=self.rollout_is_threshold)
            else:
                beyond = beyond | (weight < self.rollout_is_lower)
                factor = weight * beyond.logical_not()
            measured = {"correction/weight": factor, "correction/bounded": beyond}
        if self.rollout_rs is not None:
            kept = self._accept(tokens, log_ratio.clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO))
            factor = kept * 1.0 if factor is None else factor * kept
            measured["correction/rejected"] = kept.logical_not()
        return factor, measured

    def _accept(self, tokens: TrainedTokens, log_ratio: Tensor) -> Tensor:
        over, _, kind = str(self.rollout_rs).rpartition("_")
        values = {"k1": -log_ratio, "k2": 0.5 * log_ratio.square(), "k3": log_ratio.expm1() - log_ratio}[kind]
        match over:
            case "seq_sum":
                values = tokens.add_up(values)
            case "seq_mean":
                values = tokens.average(values)
            case "seq_max":
                most = values.new_zeros(len(values)).scatter_reduce(0, tokens.samples, values, "amax")
                values = most.index_select(0, tokens.samples)
        if kind != "k1":
            return values <= self.rollout_rs_threshold
        lowest = 1 / self.rollout_rs_threshold if self.rollout_rs_lower is None else self.rollout_rs_lower
        return (values >= math.log(lowest)) & (values <= math.log(self.rollout_rs_threshold))


@frozen(kw_only=True)
class LossOptions:
    """What a step minimises."""

    policy_loss: PolicyLoss = field(factory=PpoClip)
    """The policy gradient's."""
    correction: Correction = field(factory=Correction)
    """What its tokens count."""
    kl_loss_coef: float = field(default=0.0, validator=ge(0))
    """Weight of the divergence from the reference; 0 for none."""
    kl_loss_type: KlType = field(default="low_var_kl", validator=in_(get_args(KlType)))
    """Its estimator. `kl` has an expected gradient of zero; `mse` has the right one."""
    entropy_coeff: float = field(default=0.0)
    """Weight of the entropy, which is subtracted from the loss."""

    @property
    def per_token(self) -> bool:
        """Whether the loss of a token depends on that token alone."""
        return self.correction.per_token and read_traits(self.policy_loss, LossTraits).per_token


@frozen(eq=False)
class TokenTerms:
    """The losses of some tokens, with measurements of each: tensors [tokens], without a gradient."""

    loss: Tensor
    """Not yet multiplied by the tokens' shares; without the entropy."""
    slope: Tensor
    """The gradient of the sum of the losses, times the shares, at each log-probability."""
    measured: Mapping[str, Tensor]
    """By the names of `astuner.runs.training.signal.TOKEN_SUMS`, without `tokens` and `entropy`: the losses times the shares, and
    `clip/low`, `clip/high` and `clip/dual` as booleans; with a correction its measurements."""
    drift: Tensor
    """How far the log-probabilities of trainer and sampler are apart."""
    ratio: Tensor
    """π/π_old"""
    weight: Tensor
    """Of the policy gradient: the advantage times the correction."""
    likelihood: Tensor
    """Weight of the likelihood."""
    divergence: Tensor
    """Weight of the divergence, that of `kl_loss_coef` included."""
    reference: Tensor
    """log ρ; NaN where there is no reference."""

    def add_up(self, logp: Tensor, shares: Tensor) -> Tensor:
        """Return the sum of the losses, with its gradient at the log-probabilities [tokens] that they were computed of."""
        return self.loss.dot(shares) + self.slope.dot(logp - logp.detach())

    def cut(self, part: slice) -> TokenTerms:
        """Return those of some tokens."""
        tensors = {item.name: getattr(self, item.name)[part] for item in fields(TokenTerms) if item.name != "measured"}
        return TokenTerms(measured={name: values[part] for name, values in self.measured.items()}, **tensors)


@frozen(eq=False, kw_only=True)
class TokenStreams:
    """What an estimator adds to the loss of some tokens: tensors [tokens], without a gradient."""

    likelihood: Tensor
    """w in -w·log π"""
    divergence: Tensor
    """w in w·KL(π‖ρ)"""
    reference: Tensor
    """log ρ; what it is where w is 0 does not count."""

    def cut(self, part: slice) -> TokenStreams:
        """Return those of some tokens."""
        return TokenStreams(likelihood=self.likelihood[part], divergence=self.divergence[part], reference=self.reference[part])


def token_terms(
    tokens: TrainedTokens,
    *,
    shares: Tensor,
    options: LossOptions,
    reference: Tensor | None = None,
    trainer: Tensor | None = None,
    streams: TokenStreams | None = None,
) -> TokenTerms:
    """Return the policy's loss plus the other terms, and the values to sum over the tokens.

    `reference` are the log-probabilities of the reference of `kl_loss_coef`; `streams` are what an estimator adds.
    `trainer` are the log-probabilities that are compared with the sampler's; those of the step's start (`old`) when None.
    """
    import torch

    now = tokens.logp.detach()
    factor, measured_correction = options.correction.compute(tokens)
    with torch.enable_grad():
        leaf = now.clone().requires_grad_()
        policy = options.policy_loss.compute(evolve(tokens, logp=leaf))
        if policy.shape != now.shape:
            name, shape = type(options.policy_loss).__qualname__, list(policy.shape)
            raise PluginError(f"{name}.compute returned a tensor of shape {shape}: return the loss of each of {len(now)} tokens")
        if factor is not None:
            policy = policy * factor
        (slope,) = torch.autograd.grad(policy.dot(shares), leaf)
        clipped = _find_clipped(tokens, slope, shares if factor is None else shares * factor, options.policy_loss)
        policy = loss = policy.detach()
        kl = k3 = likelihood = weight = now.new_zeros(now.shape)
        if reference is not None:
            weight = weight + options.kl_loss_coef
            apart = options.kl_loss_coef * divergence(leaf, reference, options.kl_loss_type)
            slope = slope + torch.autograd.grad(apart.dot(shares), leaf)[0]
            kl, k3 = apart.detach(), divergence(now, reference, "low_var_kl")
        if streams is not None:
            # Imitation and divergence of a token are its own, so the correction for the sampler is none of theirs.
            apart = streams.divergence * divergence(leaf, streams.reference, options.kl_loss_type)
            slope = slope + torch.autograd.grad(apart.dot(shares), leaf)[0] - streams.likelihood * shares
            kl, likelihood, weight = kl + apart.detach(), streams.likelihood, weight + streams.divergence
            loss = loss - likelihood * now
            measured_correction["loss/likelihood"] = -likelihood * now * shares
            if reference is None:
                reference = streams.reference.where(streams.divergence != 0, math.nan)
        loss = loss + kl
    drift = (tokens.old if trainer is None else trainer) - tokens.sampler
    measured = {
        "loss/policy": policy * shares,
        "loss/kl": kl * shares,
        "kl": k3,
        "ratio": drift.exp(),
        "exp_abs": drift.abs().exp(),
        **clipped,
        **measured_correction,
    }
    ratio = (now - tokens.old).clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO).exp()
    return TokenTerms(
        loss=loss,
        slope=slope,
        measured=measured,
        drift=drift,
        ratio=ratio,
        weight=tokens.advantages if factor is None else tokens.advantages * factor,
        likelihood=likelihood,
        divergence=weight,
        reference=now.new_full(now.shape, math.nan) if reference is None else reference,
    )


def _find_clipped(tokens: TrainedTokens, slope: Tensor, counts: Tensor, loss: PolicyLoss) -> dict[str, Tensor]:
    """Return which tokens count and have no gradient: those for which the policy has gone far enough already."""
    still, negative = (slope == 0) & (counts != 0), tokens.advantages < 0
    # A ratio above 1 of a token on its own: dual clip. Where samples are clipped whole, it says nothing of the token.
    dual = negative & (tokens.logp.detach() >= tokens.old)
    if not read_traits(loss, LossTraits).per_token:
        dual = dual & dual.logical_not()
    low = negative & dual.logical_not()
    return {"clip/low": still & low, "clip/high": still & (tokens.advantages > 0), "clip/dual": still & dual}


def stack_token_values(logp: Tensor, terms: TokenTerms, entropy: Tensor | None) -> Tensor:
    """Return what is recorded of some tokens in the order of `token_values.STACKED`, float32 [8, …], without a gradient."""
    import torch

    now, clipped = logp.detach().float(), terms.measured
    clips = clipped["clip/low"] * 1.0 + clipped["clip/high"] * 2.0
    found = (
        now,
        now.new_full(now.shape, math.nan) if entropy is None else entropy.detach(),
        terms.reference,
        terms.ratio,
        terms.weight,
        terms.likelihood,
        terms.divergence,
        clips.where(clipped["clip/dual"].logical_not(), 3.0),
    )
    return torch.stack([values.to(now.dtype) for values in found])


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
