"""Which demonstrations are held out: never trained, only measured."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from astuner.contract.errors import UsageError

Item = TypeVar("Item")


def split_holdout(items: Sequence[Item], share: float, seed: int) -> tuple[list[Item], list[Item]]:
    """Return what is trained and what is held out, in their order; at least one is held out unless `share` is 0.

    Raises `UsageError` if nothing would be left to train.
    """
    count = max(1, round(len(items) * share)) if share else 0
    if count >= len(items):
        raise UsageError(
            f"--holdout {share:g}: of {len(items)} demonstration{'s' * (len(items) != 1)} none is left to train. Add "
            "demonstrations, or hold out none: --holdout 0"
        )
    chosen = set(Random(seed).sample(range(len(items)), count))
    kept = [item for place, item in enumerate(items) if place not in chosen]
    return kept, [item for place, item in enumerate(items) if place in chosen]
