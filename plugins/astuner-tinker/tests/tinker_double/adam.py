"""AdamW (arXiv 1711.05101) whose settings come with each step."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from tinker.types import AdamParams
from torch import Tensor, nn


class Adam:
    """Keeps the moments of some parameters across steps, whatever the settings of each."""

    def __init__(self, parameters: Mapping[str, nn.Parameter]) -> None:
        self._parameters = parameters
        self._first = {name: torch.zeros_like(p) for name, p in parameters.items()}
        self._second = {name: torch.zeros_like(p) for name, p in parameters.items()}
        self._steps = 0

    @torch.no_grad()
    def step(self, settings: AdamParams) -> None:
        """Move the parameters by their gradients; a missing gradient is 0."""
        self._steps += 1
        rate, of_first = settings.learning_rate, 1 - settings.beta1**self._steps
        of_second = 1 - settings.beta2**self._steps
        for name, parameter in self._parameters.items():
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            first = self._first[name].lerp_(gradient, 1 - settings.beta1)
            second = self._second[name].mul_(settings.beta2).addcmul_(gradient, gradient, value=1 - settings.beta2)
            parameter.mul_(1 - rate * settings.weight_decay)
            parameter.addcdiv_(first, (second.sqrt() / math.sqrt(of_second)).add_(settings.eps), value=-rate / of_first)

    def tensors(self, *, exact: bool) -> dict[str, Tensor]:
        """Return all that a resumed optimizer needs; inexact moments are rounded to bfloat16."""
        moments = {f"{kind}.{name}": value for kind in ("first", "second") for name, value in getattr(self, f"_{kind}").items()}
        kept = {name: value if exact else value.bfloat16().float() for name, value in moments.items()}
        return {**kept, "steps": torch.tensor(self._steps)}

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Continue where `tensors` was taken."""
        self._steps = int(tensors["steps"])
        for name in self._parameters:
            self._first[name] = tensors[f"first.{name}"].clone()
            self._second[name] = tensors[f"second.{name}"].clone()
