"""What a worker computes of each token that it trains: kept on its device during an update, and written after it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from attrs import define, field

from astuner.runs.training import TokenTerms, stack_token_values
from astuner.runs.training.token_values import STACKED
from astuner_trinity.token_parts import write_part

if TYPE_CHECKING:
    from torch import Tensor

ENTROPY = STACKED.index("entropies")


@define(eq=False)
class KeptValues:
    """The values of the passes of one update. An error costs the record of the step, and not the step."""

    _numbers: list[Tensor] = field(factory=list, init=False)
    _lengths: list[Tensor] = field(factory=list, init=False)
    _stacks: list[Tensor] = field(factory=list, init=False)
    _last: Tensor | None = field(default=None, init=False)
    """[rows, longest answer] which tokens of the last pass are kept."""
    _lost: bool = field(default=False, init=False)

    def add(self, numbers: Tensor, mask: Tensor, logp: Tensor, terms: TokenTerms) -> None:
        """Keep the values of a pass, [rows, longest answer]; a row with a negative number is left out.

        `terms` are of the tokens where `mask` is true.
        """
        if self._lost:
            return
        with self._lose_on_error(), torch.no_grad():
            self._last = kept = mask & (numbers >= 0).unsqueeze(1)
            # As precise as they are stored; what is beyond that range becomes the largest number there.
            self._stacks.append(stack_token_values(logp[mask], terms, None)[:, kept[mask]].half())
            self._numbers.append(numbers)
            self._lengths.append(kept.sum(1))

    def add_entropies(self, entropies: Tensor) -> None:
        """Add the entropies [rows, longest answer] of the last pass."""
        if self._lost:
            return
        with self._lose_on_error(), torch.no_grad():
            self._stacks[-1][ENTROPY] = entropies[self._last].half()

    def write(self, directory: Path, step: int, worker: int) -> None:
        """Write what was kept, if anything was."""
        if self._lost or not self._stacks:
            return
        with self._lose_on_error():
            numbers, lengths = torch.cat(self._numbers).cpu(), torch.cat(self._lengths).cpu()
            named = numbers >= 0
            if named.any():
                stack = torch.cat(self._stacks, 1).cpu().numpy()
                write_part(directory, step, worker, numbers[named].tolist(), lengths[named].tolist(), stack)

    @contextmanager
    def _lose_on_error(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  # whatever it is, no training step may fail for its record
            self._lost = True
            self._stacks.clear()
            print(f"trained tokens are not recorded: {type(error).__name__}: {error}", file=sys.stderr)
