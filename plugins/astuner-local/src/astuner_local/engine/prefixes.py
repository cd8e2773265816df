"""Finds sequences whose beginning equals that of a new prompt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from astuner_local.engine.slots import Slot

_BLOCK = 8
"""Prompts are looked up by prefixes of multiples of this many ids."""


def common_prefix(left: NDArray[np.int32], right: NDArray[np.int32]) -> int:
    """Return how many leading ids agree."""
    size = min(len(left), len(right))
    same = left[:size] == right[:size]
    return size if same.all() else int(same.argmin())


def prefix_keys(ids: Sequence[int]) -> list[int]:
    """Return a hash of each prefix of whole blocks; equal hashes are candidates, to be compared."""
    key, keys = 0, []
    for end in range(_BLOCK, len(ids) + 1, _BLOCK):
        key = hash((key, *ids[end - _BLOCK : end]))
        keys.append(key)
    return keys


class PrefixIndex:
    """Maps the prefixes of prompts to the slot that computed them last."""

    def __init__(self) -> None:
        """Start empty."""
        self._slots: dict[int, Slot] = {}

    def add(self, slot: Slot, keys: list[int]) -> None:
        """Record that a slot holds, or is about to compute, the prompt with these keys."""
        self.discard(slot)
        slot.keys = keys
        for key in keys:
            self._slots[key] = slot

    def discard(self, slot: Slot) -> None:
        """Remove a slot."""
        for key in slot.keys:
            if self._slots.get(key) is slot:
                del self._slots[key]
        slot.keys = []

    def find(self, keys: Sequence[int]) -> Slot | None:
        """Return the slot with the longest matching prefix."""
        for key in reversed(keys):
            slot = self._slots.get(key)
            if slot is not None:
                return slot
        return None
