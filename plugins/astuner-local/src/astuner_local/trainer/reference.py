"""The frozen policy from which the divergence is measured."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from astuner_local.forward.choose import make_forward

if TYPE_CHECKING:
    from astuner_local.forward.seam import Forward


class Reference:
    """A separate frozen model, or the trained one with its adapters switched off."""

    def __init__(self, model: nn.Module, forward: Forward, frozen: nn.Module | None, dtype: torch.dtype) -> None:
        """Take the trained model with its forward pass, and a frozen one.

        Without that, the trained one's adapters are switched off; without adapters it is copied.
        """
        self._adapted: Any = None
        self._module: nn.Module | None = None
        if frozen is None and hasattr(model, "disable_adapter"):
            self._adapted, self._forward = model, forward
            return
        self._module = copy.deepcopy(model) if frozen is None else frozen
        self._module.requires_grad_(False).eval()
        self._forward = make_forward(self._module, trainable=False, dtype=dtype)

    @contextmanager
    def forward(self) -> Iterator[Forward]:
        """Hand out the forward pass of the reference for a while."""
        if self._adapted is None:
            yield self._forward
            return
        with self._adapted.disable_adapter():
            yield self._forward

    def fingerprint(self) -> str:
        """Return a digest of the sums of its weights, which identifies it; empty with adapters, whose base does not change."""
        if self._module is None:
            return ""
        digest = hashlib.sha256()
        for name, tensor in self._module.named_parameters():
            digest.update(f"{name} {tensor.double().sum().item():.9e}\n".encode())
        return digest.hexdigest()
