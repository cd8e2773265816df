"""What one step of the engine runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from astuner_local.engine.attention import Stretch
from astuner_local.engine.slots import Slot


@frozen(kw_only=True, eq=False)
class Inputs:
    """The tokens of a step, with padding."""

    ids: NDArray[np.int64]
    positions: NDArray[np.int64]
    rows: NDArray[np.int64]
    """The slot that each token belongs to; -1 for unused rows, and for padding, which run on id 0 without effect."""
    longest: int
    """Most tokens that a decoding row attends to."""


@frozen(kw_only=True, eq=False)
class Plan:
    """The tokens of one step: `rows` decoding ones, of which row i stands for slot i, then the stretches."""

    decoding: list[Slot]
    rows: int
    stretches: list[tuple[Slot, Stretch]]
    tokens: int
    wanted: list[tuple[Slot, int]]
    """The slots that get a token, with the row of hidden states to draw it from."""

    def lay_out(self, size: int) -> Inputs:
        """Lay the tokens out, padded to `size`."""
        ids, positions = np.zeros(size, np.int64), np.zeros(size, np.int64)
        rows = np.full(size, -1, np.int64)
        longest = 1
        if self.decoding:
            at = [slot.index for slot in self.decoding]
            lengths = [slot.length for slot in self.decoding]
            longest += max(lengths)
            ids[at] = [slot.ids[slot.length] for slot in self.decoding]
            positions[at] = lengths
            rows[at] = at
        for slot, stretch in self.stretches:
            here = slice(stretch.begin, stretch.begin + stretch.size)
            ids[here] = slot.ids[slot.length : slot.length + stretch.size]
            positions[here] = np.arange(slot.length, slot.length + stretch.size)
            rows[here] = slot.index
        return Inputs(ids=ids, positions=positions, rows=rows, longest=longest)


def make_plan(running: Sequence[Slot], prefill_tokens: int) -> Plan | None:
    """Choose what a step runs: all decoding rows, and prompts up to the budget, the oldest first; None if there is nothing."""
    decoding = [slot for slot in running if slot.pending == 1]
    rows = 1 + max((slot.index for slot in decoding), default=-1)
    begin, budget = rows, prefill_tokens
    stretches: list[tuple[Slot, Stretch]] = []
    wanted = [(slot, slot.index) for slot in decoding]
    for slot in running:
        size = min(slot.pending, budget)
        if slot.pending == 1 or not size:
            continue
        stretches.append((slot, Stretch(slot=slot.index, begin=begin, size=size, position=slot.length)))
        begin, budget = begin + size, budget - size
        if size == slot.pending:
            wanted.append((slot, begin - 1))
    if begin == 0:
        return None
    return Plan(decoding=decoding, rows=rows, stretches=stretches, tokens=begin, wanted=wanted)
