"""What makes the loss of a step's tokens: a pure function, which every backbone calls with the same tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from attrs import field, frozen

from astuner.contract.protocols.traits import FLAG

if TYPE_CHECKING:
    from torch import Tensor

MOST_LOG_RATIO = 20.0
"""Log-ratios of two policies are held within ± this before `exp`."""


@frozen(kw_only=True, eq=False)
class TrainedTokens:
    """The trained tokens of whole samples: tensors [tokens], sample after sample, of which only `logp` may have a gradient."""

    logp: Tensor
    """log π by the weights in training"""
    old: Tensor
    """log π by the weights that the step began with; equal to `logp` in value where there is one mini-batch"""
    sampler: Tensor
    """log μ, as the engine recorded it"""
    advantages: Tensor
    """A, by the estimator"""
    samples: Tensor
    """int64, from 0 without gaps: which sample each token belongs to."""

    def log_ratio(self) -> Tensor:
        """Return log π/π_old, within ± `MOST_LOG_RATIO`."""
        return (self.logp - self.old).clamp(-MOST_LOG_RATIO, MOST_LOG_RATIO)

    def add_up(self, values: Tensor) -> Tensor:
        """Return, at each token, the sum of the values over its sample."""
        return values.new_zeros(len(values)).index_add(0, self.samples, values).index_select(0, self.samples)

    def average(self, values: Tensor) -> Tensor:
        """Return, at each token, the mean of the values over its sample."""
        return self.add_up(values) / self.add_up(values.detach().new_ones(len(values)))


@frozen(kw_only=True)
class LossTraits:
    """What a trainer may do with a loss."""

    per_token: bool = field(default=False, validator=FLAG)
    """Whether the loss of a token depends on that token alone: then a trainer may compute it piece by piece, in one sweep."""


class PolicyLoss(Protocol):
    """The policy gradient's loss. Runs where the weights are: it must pickle, and keep no state.

    It may have `traits` (`LossTraits`). Written with methods of the tensors, its module imports without torch:

        class Reinforce:
            def compute(self, tokens):
                return -tokens.advantages * tokens.logp
    """

    def compute(self, tokens: TrainedTokens) -> Tensor:
        """Return the loss of each token [tokens], with a gradient at `tokens.logp`.

        The trainer multiplies it by the correction for the sampler and by the tokens' shares in the mini-batch, and sums. A token
        with an advantage and no gradient counts as clipped.
        """
