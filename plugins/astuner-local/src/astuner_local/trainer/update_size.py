"""How far a step moves the weights, measured on a sample of them."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn

SAMPLED = 4096
"""Numbers of each tensor that are looked at, evenly spread: a copy of the whole model would double its memory."""


class UpdateSize:
    """Remembers some of the weights as they are when it is made."""

    @torch.no_grad()
    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._before = [_sample(parameter).clone() for parameter in self._parameters]

    @torch.no_grad()
    def measure(self) -> float:
        """Return the norm of the change since then, divided by the norm of the weights then."""
        changed = total = 0.0
        for parameter, before in zip(self._parameters, self._before, strict=True):
            # A tensor counts by all of its numbers, not by those that were looked at.
            weight = parameter.numel() / max(1, before.numel())
            changed += weight * float((_sample(parameter) - before).float().square().sum())
            total += weight * float(before.float().square().sum())
        return math.sqrt(changed / total) if total else 0.0


def _sample(parameter: Tensor) -> Tensor:
    flat = parameter.detach().view(-1) if parameter.is_contiguous() else parameter.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // SAMPLED)]
