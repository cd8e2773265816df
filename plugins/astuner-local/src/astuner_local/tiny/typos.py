"""Wrong digits in the model's own earlier text: they make it copy by place."""

from __future__ import annotations

import torch
from attrs import evolve
from torch import Tensor

from astuner_local.tiny.packing import PackedBatch

TYPOS = 0.4
"""Share of the assistant's digits that are replaced by random ones."""


def add_typos(batch: PackedBatch, digits: Tensor, chance: torch.Generator) -> PackedBatch:
    """Replace some of the assistant's digits in the input, but not in the targets.

    Otherwise the model learns which digits follow each other in the shown numbers, and hardly ever writes a held-out one.
    """
    wrong = torch.isin(batch.targets, digits) & (torch.rand(len(batch.targets), generator=chance) < TYPOS)
    places = batch.predictors[wrong] + 1
    read = batch.input_ids.flatten().clone()
    read[places] = digits[torch.randint(len(digits), (len(places),), generator=chance)]
    return evolve(batch, input_ids=read.view_as(batch.input_ids))
