"""Several short conversations in one row, each seeing only itself."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import torch
from attrs import frozen
from torch import Tensor

Encoded = tuple[Sequence[int], Sequence[bool]]
"""Token ids, and for each whether it is trained."""

ROW = 112
"""Least row length: fits two of the quickstart's short conversations, or a long one, with little padding."""


@frozen(kw_only=True, eq=False)
class PackedBatch:
    """A batch as the model's forward takes it. B rows of T tokens."""

    input_ids: Tensor
    """[B, T]"""
    position_ids: Tensor
    """[B, T], starting again from 0 with each conversation."""
    attention_mask: Tensor
    """[B, 1, T, T], true where a token may attend."""
    predictors: Tensor
    """[R], positions in the flattened batch whose next token is learnt."""
    targets: Tensor
    """[R], that next token."""
    owners: Tensor
    """[R], the number of its conversation in the batch, from 1."""


def pack(conversations: Sequence[Encoded]) -> PackedBatch:
    """Put conversations into rows, first fit, longest first."""
    ordered = sorted(conversations, key=lambda conversation: len(conversation[0]), reverse=True)
    width = max(len(ordered[0][0]), ROW)
    rows: list[list[Encoded]] = []
    room: list[int] = []
    for conversation in ordered:
        length = len(conversation[0])
        row = next((index for index, free in enumerate(room) if free >= length), None)
        if row is None:
            rows.append([])
            room.append(width)
            row = len(rows) - 1
        rows[row].append(conversation)
        room[row] -= length

    numbers = count(1)
    ids, positions, owner, learnt = (torch.zeros(len(rows), width, dtype=torch.long) for _ in range(4))
    for row, members in enumerate(rows):
        start = 0
        for tokens, written in members:
            end = start + len(tokens)
            ids[row, start:end] = torch.tensor(tokens)
            positions[row, start:end] = torch.arange(len(tokens))
            owner[row, start:end] = next(numbers)
            # The token at i is learnt from the state at i - 1.
            learnt[row, start : end - 1] = torch.tensor(written[1:])
            start = end
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    mask = causal & (owner[:, :, None] == owner[:, None, :])
    predictors = learnt.flatten().nonzero()[:, 0]
    return PackedBatch(
        input_ids=ids,
        position_ids=positions,
        attention_mask=mask[:, None],
        predictors=predictors,
        targets=ids.flatten()[predictors + 1],
        owners=owner.flatten()[predictors],
    )
