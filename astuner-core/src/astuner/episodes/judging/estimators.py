"""Advantage estimators: rewards of sibling episodes in, advantages out.

All work on episodes, never on rows: how an episode is split into samples does not change its advantage. Equal rewards give
exactly 0: in the group for an estimator that compares siblings, in the whole step for one that compares all episodes of it.
A group with a single rewarded episode has no siblings to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from astuner.contract.protocols import EstimatorTraits

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

Rewards = NDArray[np.float64]
Returns = NDArray[np.float64]
"""[trained tokens of an episode and agent] the reward, less the penalties from each token on."""

EPSILON = 1e-6
"""Added to a standard deviation before dividing, as in verl."""

WHITENING_EPSILON = 1e-8
"""Added to a variance, as in verl's `masked_whiten`."""

ROUNDING = 1e-12
"""Rewards whose difference is smaller, relative to the largest or to 1, are equal: 0.1 + 0.2 and 0.3; 0.1 + 0.2 - 0.3 and 0."""


class Grpo:
    """Group-relative: `(r - mean) / (std + 1e-6)`, std unbiased (Shao et al. 2024, arXiv 2402.03300)."""

    def __init__(self, norm_by_std: bool = True) -> None:
        """Divide by the group's standard deviation, or not (`trainer_common.algorithm.norm_adv_by_std_in_grpo`)."""
        self.norm_by_std = norm_by_std

    @classmethod
    def from_run(cls, options: Any, run_info: RunInfo) -> Grpo:
        """Read the setting from the run's configuration."""
        return cls(norm_by_std=run_info.config.trainer_common.algorithm.norm_adv_by_std_in_grpo)

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, group by group."""
        return [self._compare_group(rewards) for rewards in groups]

    def _compare_group(self, rewards: Rewards) -> Rewards:
        if agree(rewards):
            return np.zeros_like(rewards)
        scale = rewards.std(ddof=1) + EPSILON if self.norm_by_std else 1.0
        return np.divide(_centre(rewards), scale)


class DrGrpo:
    """Group-relative: `r - mean`, without the std and length biases of GRPO (Liu et al. 2025, arXiv 2503.20783)."""

    traits = EstimatorTraits(default_loss_agg_mode="seq-mean-token-sum-norm")

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, group by group."""
        return [_centre(rewards) for rewards in groups]


class Rloo:
    """Group-relative: `r - mean of the siblings' r`, leaving itself out (Ahmadian et al. 2024, arXiv 2402.14740)."""

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, group by group."""
        return [_centre(rewards) * (rewards.size / max(1, rewards.size - 1)) for rewards in groups]


class ReinforcePlusPlus:
    """Over the step: `(R - mean) / sqrt(var + 1e-8)` over all trained tokens, var unbiased (Hu 2025, arXiv 2501.03262).

    R is the reward; with the divergence in the reward, each token's penalty counts for itself and the tokens before it. So long
    episodes weigh more in the mean than short ones, as in verl. `reinforce_plus_plus_episode` counts each episode once.
    """

    traits = EstimatorTraits(group_relative=False, weighs_tokens=True)

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, for episodes of equal length."""
        found = self.token_advantages(groups, [[rewards[i : i + 1] for i in range(rewards.size)] for rewards in groups])
        return [_join(group) for group in found]

    def token_advantages(self, groups: Sequence[Rewards], returns: Sequence[Sequence[Returns]]) -> Sequence[Sequence[Returns]]:
        """Return one advantage per token, in the shapes of `returns`."""
        return _whiten(returns)


class ReinforcePlusPlusBaseline:
    """Over the step: `r - mean of the group`, then whitened over all trained tokens (Hu 2025, arXiv 2501.03262, with baseline).

    The reward of a single sibling is its own mean (verl leaves it as it is).
    """

    traits = EstimatorTraits(group_relative=False, weighs_tokens=True)

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, for episodes of equal length."""
        found = self.token_advantages(groups, [[np.zeros(1)] * rewards.size for rewards in groups])
        return [_join(group) for group in found]

    def token_advantages(self, groups: Sequence[Rewards], returns: Sequence[Sequence[Returns]]) -> Sequence[Sequence[Returns]]:
        """Return one advantage per token, in the shapes of `returns`."""
        centred = [
            [np.full(tokens.size, value) for value, tokens in zip(_centre(rewards), siblings, strict=True)]
            for rewards, siblings in zip(groups, returns, strict=True)
        ]
        return _whiten(centred)


class ReinforcePlusPlusEpisode:
    """Over the step: `(r - mean) / (std + 1e-6)` over all episodes, whatever their lengths; std unbiased."""

    traits = EstimatorTraits(group_relative=False)

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, group by group."""
        everything = _join(groups)
        if agree(everything):
            return [np.zeros_like(rewards) for rewards in groups]
        mean, std = everything.mean(), everything.std(ddof=1)
        return [(rewards - mean) / (std + EPSILON) for rewards in groups]


def agree(rewards: Rewards) -> bool:
    """Whether there are no two rewards that differ by more than rounding."""
    return rewards.size == 0 or bool(np.ptp(rewards) <= ROUNDING * max(1.0, np.abs(rewards).max()))


def _centre(rewards: Rewards) -> Rewards:
    # The mean of equal numbers may differ from them in the last bit.
    return np.zeros_like(rewards) if agree(rewards) else rewards - rewards.mean()


def _whiten(groups: Sequence[Sequence[Returns]]) -> Sequence[Sequence[Returns]]:
    everything = _join([tokens for siblings in groups for tokens in siblings])
    if agree(everything):
        return [[np.zeros_like(tokens) for tokens in siblings] for siblings in groups]
    mean, scale = everything.mean(), np.sqrt(everything.var(ddof=1) + WHITENING_EPSILON)
    return [[(tokens - mean) / scale for tokens in siblings] for siblings in groups]


def _join(arrays: Sequence[Rewards]) -> Rewards:
    return np.concatenate(list(arrays)) if arrays else np.zeros(0)
