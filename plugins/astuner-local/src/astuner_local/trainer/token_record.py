"""The values of the tokens that an update trained, on the device until the update is over."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import define, field
from torch import Tensor

from astuner.runs.training.token_values import TokenValues, join_passes


@define(eq=False)
class TokenRecord:
    """Collects the values of one update, pass by pass."""

    stacks: list[Tensor] = field(factory=list, init=False)
    """[8, tokens] each, as `stack_token_values` returns them, in the order of the rows that are added."""
    _numbers: list[int] = field(factory=list, init=False)
    _lengths: list[int] = field(factory=list, init=False)

    def add_rows(self, numbers: Sequence[int], lengths: Sequence[int]) -> None:
        """Add the rows of a pass: which of the step's rows they are, and their trained tokens."""
        self._numbers += numbers
        self._lengths += lengths

    def read(self, rows: int) -> TokenValues | None:
        """Return the values of all `rows` of the step; None if no token was trained."""
        if not self.stacks:
            return None
        values = TokenValues.from_stack(torch.cat(self.stacks, 1).cpu().numpy(), self._lengths)
        return join_passes([(self._numbers, values)], rows)
