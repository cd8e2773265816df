"""Advantage estimators of the literature. Both compare siblings; equal rewards, and a single sibling, give 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from astuner.contract.protocols import EstimatorTraits

if TYPE_CHECKING:
    from astuner.contract.protocols import RunInfo

Values = NDArray[np.float64]

EPSILON = 1e-6
"""Added to a standard deviation before dividing, as in verl."""


class Opo:
    """Group-relative: `r - mean of the group`, weighed by the number of trained tokens (Hao et al. 2025, arXiv 2505.23585).

    This baseline has the least variance if the gradient of an answer grows with its length.
    """

    traits = EstimatorTraits(weighs_tokens=True)

    def advantages(self, groups: Sequence[Values]) -> Sequence[Values]:
        """Return one advantage per reward, for episodes of equal length."""
        return [_subtract_baseline(rewards, np.ones(rewards.size)) for rewards in groups]

    def token_advantages(self, groups: Sequence[Values], returns: Sequence[Sequence[Values]]) -> Sequence[Sequence[Values]]:
        """Return one advantage per token, in the shapes of `returns`: that of its episode."""
        found = []
        for rewards, siblings in zip(groups, returns, strict=True):
            lengths = np.array([tokens.size for tokens in siblings], dtype=np.float64)
            advantages = _subtract_baseline(rewards, lengths)
            found.append([np.full(tokens.size, value) for value, tokens in zip(advantages, siblings, strict=True)])
        return found


class PassAtK:
    """Group-relative, for the best of k siblings: `r - the second best r` for the best one, 0 for the others.

    That is the best reward with a sibling, less the best without it, so its mean gradient is that of pass@k (Tang et al. 2025,
    arXiv 2503.19595). k is `rollout.num_repeat`.
    """

    def __init__(self, norm_by_std: bool = True) -> None:
        """Divide by the group's standard deviation, as verl does, or not (`trainer_common.algorithm.norm_adv_by_std_in_grpo`)."""
        self.norm_by_std = norm_by_std

    @classmethod
    def from_run(cls, options: Any, run_info: RunInfo) -> PassAtK:
        """Read the setting from the run's configuration."""
        return cls(norm_by_std=run_info.config.trainer_common.algorithm.norm_adv_by_std_in_grpo)

    def advantages(self, groups: Sequence[Values]) -> Sequence[Values]:
        """Return one advantage per reward, group by group."""
        return [self._prefer_best(rewards) for rewards in groups]

    def _prefer_best(self, rewards: Values) -> Values:
        found = np.zeros_like(rewards)
        if rewards.size > 1:
            second, best = np.argsort(rewards, kind="stable")[-2:]
            scale = rewards.std(ddof=1) + EPSILON if self.norm_by_std else 1.0
            found[best] = (rewards[best] - rewards[second]) / scale
        return found


def _subtract_baseline(rewards: Values, weights: Values) -> Values:
    # Siblings without a trained token have no gradient.
    if rewards.size < 2 or not weights.any():
        return np.zeros_like(rewards)
    return np.subtract(rewards, np.average(rewards, weights=weights))
