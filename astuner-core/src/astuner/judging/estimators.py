"""Advantage estimators: rewards of sibling episodes in, advantages out.

All work on episodes, never on rows: how an episode is split into samples does not change its advantage.
A group with a single rewarded episode has no siblings to compare with and gets 0 if the estimator is group-relative.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from astuner.protocols import RunInfo

Rewards = NDArray[np.float64]

EPSILON = 1e-6
"""Added to a standard deviation before dividing, as in verl."""


class Grpo:
    """Group-relative advantage `(r - mean) / (std + 1e-6)`, std unbiased (Shao et al. 2024, arXiv 2402.03300)."""

    default_loss_agg_mode: ClassVar[str] = "token-mean"

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
        if rewards.size < 2:
            return np.zeros_like(rewards)
        centred: Rewards = rewards - rewards.mean()
        scale = rewards.std(ddof=1) + EPSILON if self.norm_by_std else 1.0
        return np.divide(centred, scale)


class DrGrpo:
    """`r - mean`, without the std and length biases of GRPO (Liu et al. 2025, arXiv 2503.20783)."""

    default_loss_agg_mode: ClassVar[str] = "seq-mean-token-sum-norm"

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, group by group."""
        return [rewards - rewards.mean() if rewards.size > 1 else np.zeros_like(rewards) for rewards in groups]


class Rloo:
    """Leave-one-out baseline `r_i - mean of the others` (Ahmadian et al. 2024, arXiv 2402.14740)."""

    default_loss_agg_mode: ClassVar[str] = "token-mean"

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, group by group."""
        return [
            (rewards - rewards.mean()) * rewards.size / (rewards.size - 1) if rewards.size > 1 else np.zeros_like(rewards)
            for rewards in groups
        ]


class ReinforcePlusPlus:
    """`(r - mean) / (std + 1e-6)` over all episodes of the step, not per group (Hu 2025, arXiv 2501.03262)."""

    default_loss_agg_mode: ClassVar[str] = "token-mean"

    def advantages(self, groups: Sequence[Rewards]) -> Sequence[Rewards]:
        """Return one advantage per reward, group by group."""
        everything = np.concatenate(list(groups)) if groups else np.zeros(0)
        if everything.size < 2:
            return [np.zeros_like(rewards) for rewards in groups]
        mean, std = everything.mean(), everything.std(ddof=1)
        return [(rewards - mean) / (std + EPSILON) for rewards in groups]
