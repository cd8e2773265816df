"""What holds up the fall of the entropy: a few tokens of the step cause most of it (Cui et al. 2025, arXiv 2505.22617).

Advantages are those of `grpo`. The covariance of a token is (A - mean A)·(log μ - mean log μ), with the means over all trained
tokens of the step. As losses, where others have them, they would depend on how a step is cut into passes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import field, frozen
from attrs.validators import ge, gt, le
from numpy.typing import NDArray

from astuner.contract.protocols import EstimatorTraits, Streams
from astuner_algorithms.streams import Groups, Values, normalise


class ClipCov:
    """Tokens whose covariance is high train nothing: those with the highest, below a bound."""

    traits = EstimatorTraits(gives_streams=True, group_relative=False)

    @frozen(kw_only=True)
    class Options:
        """Which tokens these are; the defaults are verl's."""

        share: float = field(default=2e-4, validator=[gt(0), le(1)])
        """How many of the step's tokens, at least one; the paper draws them at random between the bounds."""
        low: float = 1.0
        """Their covariance is above this,"""
        high: float = 5.0
        """and below this."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options."""
        self.options = options or self.Options()

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the advantages."""
        advantages, covariances = _compute_covariances(groups)
        within = (covariances > self.options.low) & (covariances < self.options.high)
        chosen = _choose_highest(np.where(within, covariances, -np.inf), self.options.share) & within
        parts = iter(_split(groups, np.where(chosen, 0.0, advantages)))
        return [[Streams(advantages=next(parts)) for _ in siblings] for siblings in groups]


class KlCov:
    """Tokens with the highest covariance are held where they were: by a divergence from the sampler.

    It matters from the second mini-batch on, with a `clip_ratio_high` that does not clip them first.
    """

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True, group_relative=False)

    @frozen(kw_only=True)
    class Options:
        """Which tokens these are, and how they are held; the defaults are verl's."""

        share: float = field(default=2e-4, validator=[gt(0), le(1)])
        """How many of the step's tokens, at least one."""
        weight: float = field(default=1.0, validator=ge(0))
        """Of the divergence; its estimator is `trainer_common.kl_loss_type`, `abs` in the paper."""

    def __init__(self, options: Options | None = None) -> None:
        """Take the options."""
        self.options = options or self.Options()

    def signal(self, groups: Groups) -> Sequence[Sequence[Streams]]:
        """Return the advantages and the weights of the divergence."""
        advantages, covariances = _compute_covariances(groups)
        weights = self.options.weight * _choose_highest(covariances, self.options.share).astype(np.float64)
        parts = iter(zip(_split(groups, advantages), _split(groups, weights), strict=True))
        return [
            [Streams(advantages=own, divergence=held, reference="sampler") for own, held in (next(parts) for _ in siblings)]
            for siblings in groups
        ]


def _compute_covariances(groups: Groups) -> tuple[Values, Values]:
    """Return the advantages and the covariances of all trained tokens of a step."""
    given = [normalise(np.array([one.reward for one in siblings])) for siblings in groups]
    each = [
        np.full(one.tokens, value)
        for own, siblings in zip(given, groups, strict=True)
        for value, one in zip(own, siblings, strict=True)
    ]
    logprobs = np.concatenate([np.zeros(0), *(one.logprobs for siblings in groups for one in siblings)])
    advantages = np.concatenate([np.zeros(0), *each])
    if not advantages.size:
        return advantages, advantages
    return advantages, (advantages - advantages.mean()) * (logprobs - logprobs.mean())


def _choose_highest(covariances: Values, share: float) -> NDArray[np.bool_]:
    chosen = np.zeros(covariances.size, np.bool_)
    chosen[np.argsort(-covariances, kind="stable")[: max(1, int(share * covariances.size))]] = True
    return chosen


def _split(groups: Groups, values: Values) -> list[Values]:
    lengths = [one.tokens for siblings in groups for one in siblings]
    return np.split(values, np.cumsum(lengths)[:-1]) if lengths else []
