"""Losses of the policy gradient of the literature: what each token of a step minimises, with r = π/π_old.

Each is a pure function of `TrainedTokens`, written with methods of its tensors. What it returns per token is added up by
`trainer_common.loss_agg_mode`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from attrs import field, frozen
from attrs.validators import ge, gt, in_, le

from astuner.contract.protocols import LossTraits, TrainedTokens

if TYPE_CHECKING:
    from torch import Tensor


class Gspo:
    """PPO's -min(s·A, clip(s)·A), with s the geometric mean of the ratios of a sample (Zheng et al. 2025, arXiv 2507.18071).

    As in GSPO-token, each token has its own gradient: its loss is that of s·π/sg[π].
    """

    @frozen(kw_only=True)
    class Options:
        """Its bounds; those of the paper by default, far narrower than what single tokens need."""

        clip_ratio_low: float = field(default=3e-4, validator=[ge(0), le(1)])
        """How far below 1 the mean ratio of a sample may fall before it stops counting, for negative advantages."""
        clip_ratio_high: float = field(default=4e-4, validator=ge(0))
        """How far above 1 it may rise, for positive ones."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the bounds."""
        self.options = options or self.Options()

    def compute(self, tokens: TrainedTokens) -> Tensor:
        """Return the loss of each token."""
        now = tokens.logp.detach()
        ratio = (tokens.logp - now + tokens.average(tokens.log_ratio().detach())).exp()
        clipped = ratio.clamp(1 - self.options.clip_ratio_low, 1 + self.options.clip_ratio_high)
        return -(ratio * tokens.advantages).minimum(clipped * tokens.advantages)


class Gmpo:
    """-A·s, with s the geometric mean of the clipped ratios of a sample (Zhao et al. 2025, arXiv 2507.20673).

    Ratios are clipped one by one, in their logarithm. Each token of a sample has the loss of the sample, and the sample the mean
    of its advantages.
    """

    @frozen(kw_only=True)
    class Options:
        """Its bounds; those of the paper by default, of ratios from e^-0.4 to e^0.4."""

        clip_log_ratio_low: float = field(default=0.4, validator=ge(0))
        """How far below 0 the log-ratio of a token may fall before it stops counting, for negative advantages."""
        clip_log_ratio_high: float = field(default=0.4, validator=ge(0))
        """How far above 0 it may rise, for positive ones."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the bounds."""
        self.options = options or self.Options()

    def compute(self, tokens: TrainedTokens) -> Tensor:
        """Return the loss of each token."""
        sign, log_ratio = tokens.advantages.sign(), tokens.log_ratio()
        clipped = log_ratio.clamp(-self.options.clip_log_ratio_low, self.options.clip_log_ratio_high)
        # The smaller of both for a positive advantage, the larger for a negative one.
        mean = tokens.average(sign * (sign * log_ratio).minimum(sign * clipped))
        return -tokens.average(tokens.advantages) * mean.exp()


class Cispo:
    """-sg[clip(r)]·A·log π: a bounded weight, and a gradient for every token (MiniMax 2025, arXiv 2506.13585)."""

    traits = LossTraits(per_token=True)

    @frozen(kw_only=True)
    class Options:
        """The bounds of the weight; as in the paper, there is no lower one by default."""

        clip_ratio_low: float = field(default=1.0, validator=[ge(0), le(1)])
        """How far below 1 the weight may fall; with 1 it may fall to 0."""
        clip_ratio_high: float = field(default=4.0, validator=ge(0))
        """How far above 1 it may rise."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the bounds."""
        self.options = options or self.Options()

    def compute(self, tokens: TrainedTokens) -> Tensor:
        """Return the loss of each token."""
        ratio = tokens.log_ratio().detach().exp()
        weight = ratio.clamp(1 - self.options.clip_ratio_low, 1 + self.options.clip_ratio_high)
        return -weight * tokens.advantages * tokens.logp


class Sapo:
    """-A·σ(τ(r - 1))·4/τ: a gate that closes softly in place of the clip (Gao et al. 2025, arXiv 2511.20347)."""

    traits = LossTraits(per_token=True)

    @frozen(kw_only=True)
    class Options:
        """How fast the gate closes; as in the paper by default, faster for negative advantages."""

        tau_positive: float = field(default=1.0, validator=gt(0))
        """τ where the advantage is positive."""
        tau_negative: float = field(default=1.05, validator=gt(0))
        """τ where it is not."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the temperatures."""
        self.options = options or self.Options()

    def compute(self, tokens: TrainedTokens) -> Tensor:
        """Return the loss of each token."""
        advantages = tokens.advantages
        tau = advantages.new_full(advantages.shape, self.options.tau_negative)
        tau = tau.masked_fill(advantages > 0, self.options.tau_positive)
        return -advantages * (tau * (tokens.log_ratio().exp() - 1)).sigmoid() * 4 / tau


class Dppo:
    """-sg[min(r, c)]·A·log π, unless the policy has gone too far the advantage's way (Qi et al. 2026, arXiv 2602.04879).

    How far is measured by the divergence of two distributions: of the sampled token against all others, before and now. So a rare
    token may change by a large ratio, and a likely one not by a small one that moves much probability.
    """

    traits = LossTraits(per_token=True)

    @frozen(kw_only=True)
    class Options:
        """How the divergence is measured, and how large it may be."""

        divergence: Literal["tv", "kl"] = field(default="tv", validator=in_(("tv", "kl")))
        """Total variation, or KL; with `kl` use smaller bounds, such as 0.05."""
        clip_divergence_low: float = field(default=0.2, validator=ge(0))
        """The largest divergence of a token that has become less likely, for negative advantages."""
        clip_divergence_high: float = field(default=0.2, validator=ge(0))
        """That of one that has become more likely, for positive ones."""
        clip_ratio_c: float = field(default=20.0, validator=gt(0))
        """c, the largest weight."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the bounds."""
        self.options = options or self.Options()

    def compute(self, tokens: TrainedTokens) -> Tensor:
        """Return the loss of each token."""
        now, before, options = tokens.logp.detach().exp(), tokens.old.exp(), self.options
        apart = (now - before).abs()
        if options.divergence == "kl":
            others = ((1 - before + 1e-8) / (1 - now + 1e-8)).log()
            apart = before * (tokens.old - tokens.logp.detach()) + (1 - before) * others
        up, down = tokens.advantages > 0, tokens.advantages <= 0
        beyond = (up & (now > before) & (apart > options.clip_divergence_high)) | (
            down & (now < before) & (apart > options.clip_divergence_low)
        )
        weight = tokens.log_ratio().detach().exp().clamp(max=options.clip_ratio_c)
        return -weight * tokens.advantages * tokens.logp * beyond.logical_not()
