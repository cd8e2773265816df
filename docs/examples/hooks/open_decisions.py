"""Wraps the loss: tokens that were all but certain when they were sampled count nothing, and the others decide a step."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from astuner import hookimpl
from astuner.contract.protocols import LossTraits, PolicyLoss, TrainedTokens, read_traits

if TYPE_CHECKING:
    from torch import Tensor

CERTAIN = -0.01


class OpenDecisions:
    @hookimpl(wrapper=True)
    def astuner_make_loss(self) -> Generator[None, PolicyLoss, PolicyLoss]:
        made = yield
        return _OfOpenDecisions(made)


class _OfOpenDecisions:
    def __init__(self, inner: PolicyLoss) -> None:
        self._inner = inner
        self.traits = read_traits(inner, LossTraits)

    def compute(self, tokens: TrainedTokens) -> Tensor:
        return self._inner.compute(tokens) * (tokens.sampler < CERTAIN)
