"""Finding repeated questions: the same words, or a similarity above a threshold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from astuner_datagen.evidence import to_plain
from astuner_judges.embedding import Embedding

_BLOCK = 256
"""Rows compared at once with all before them."""


async def find_repeats(
    questions: Sequence[str], taken: Mapping[str, str], embedding: Embedding | None, threshold: float
) -> list[str | None]:
    """Return for each question why it is dropped, or None if it stays; the first of several stays.

    `taken` are texts that no question may be like, with the reason to report. Without an embedding only the same words count.
    """
    reasons: list[str | None] = [None] * len(questions)
    said = {to_plain(text): reason for text, reason in taken.items()}
    for number, question in enumerate(questions):
        words = to_plain(question)
        reasons[number] = said.get(words)
        said.setdefault(words, "duplicate")
    if embedding is None or not questions:
        return reasons
    vectors = await embedding.vectors([*taken, *questions])
    names = [*taken.values(), *("duplicate" for _ in questions)]
    # Dropped rows are not compared with later ones: two rows similar to one may be quite different.
    stays = np.array([True] * len(taken) + [reason is None for reason in reasons])
    for start in range(len(taken), len(vectors), _BLOCK):
        likeness = vectors[start : start + _BLOCK] @ vectors[: start + _BLOCK].T
        for row, values in enumerate(likeness, start):
            if not stays[row]:
                continue
            before = np.where(stays[:row], values[:row], -1.0)
            nearest = int(np.argmax(before)) if row else -1
            # Slightly below, since equal texts may reach only 0.9999999.
            if nearest >= 0 and before[nearest] >= threshold - 1e-9:
                stays[row] = False
                reasons[row - len(taken)] = names[nearest]
    return reasons
