"""The values of the tokens that a worker trained, until the driver takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from attrs import define, field, frozen

from astuner.contract.protocols import TrainedTokens
from astuner.runs.training import TokenTerms, stack_token_values
from astuner.runs.training.token_values import TokenValues

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

NUMBERS = "numbers"
"""In the data of a pass: which of the step's rows it has; -1 for padding."""


@frozen(kw_only=True, eq=False)
class PassRecord:
    """Rows of a step and the values of their trained tokens: numpy only, since it goes from process to process."""

    numbers: NDArray[np.int64]
    """[rows]"""
    lengths: NDArray[np.int64]
    """[rows] trained tokens"""
    stack: NDArray[np.float32]
    """[8, tokens], as `astuner.runs.training.losses.stack_token_values` returns it"""

    def to_values(self) -> tuple[list[int], TokenValues]:
        """Return the numbers of the rows, and their values."""
        return self.numbers.tolist(), TokenValues.from_stack(self.stack, self.lengths)


@define(eq=False)
class TokenRecord:
    """Collects what the passes of a worker compute."""

    _passes: list[PassRecord] = field(factory=list, init=False)

    def add(self, numbers: Tensor, tokens: TrainedTokens, terms: TokenTerms, entropy: Tensor | None) -> None:
        """Add a pass: the numbers of its samples, and [tokens] what the loss computed."""
        real = numbers >= 0
        stack = stack_token_values(tokens.logp, terms, entropy)[:, real[tokens.samples]]
        lengths = tokens.samples.bincount()[real]
        found = (one.cpu().numpy() for one in (numbers[real], lengths, stack))
        self._passes.append(PassRecord(**dict(zip(("numbers", "lengths", "stack"), found, strict=True))))

    def take(self) -> list[PassRecord]:
        """Return the passes since the last call."""
        taken, self._passes = self._passes, []
        return taken
