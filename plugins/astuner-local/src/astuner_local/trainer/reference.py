"""The frozen policy from which the divergence is measured."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from astuner_local.forward.choose import make_forward

if TYPE_CHECKING:
    from astuner_local.forward.seam import Forward


def copy_trained(model: nn.Module) -> dict[str, Tensor]:
    """Return a copy of the parameters that are trained, by name: of a model with adapters a reference that `Reference` takes."""
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters() if parameter.requires_grad}


class Reference:
    """A separate frozen model, or the trained one with other adapters, or with none."""

    def __init__(
        self, model: nn.Module, forward: Forward, frozen: nn.Module | Mapping[str, Tensor] | None, dtype: torch.dtype
    ) -> None:
        """Take the trained model with its forward pass, and a frozen one, or the values of its adapters that are the reference.

        Without either, the trained one's adapters are switched off; without adapters it is copied.
        """
        self._adapted: Any = None
        self._module: nn.Module | None = None
        self._adapters: Mapping[str, Tensor] = {}
        if isinstance(frozen, Mapping):
            self._adapted, self._forward, self._adapters = model, forward, frozen
            return
        if frozen is None and hasattr(model, "disable_adapter"):
            self._adapted, self._forward = model, forward
            return
        self._module = copy.deepcopy(model) if frozen is None else frozen
        self._module.requires_grad_(False).eval()
        # The trained model's arithmetic, and no folded weights: as long as the weights are the same, the divergence is exactly 0.
        self._forward = make_forward(self._module, trainable=True, dtype=dtype)

    @contextmanager
    def forward(self) -> Iterator[Forward]:
        """Hand out the forward pass of the reference for a while."""
        if self._adapted is None:
            yield self._forward
            return
        if not self._adapters:
            with self._adapted.disable_adapter():
                yield self._forward
            return
        trained = {name: parameter for name, parameter in self._adapted.named_parameters() if name in self._adapters}
        own = {name: parameter.data for name, parameter in trained.items()}
        try:
            for name, parameter in trained.items():
                parameter.data = self._adapters[name]
            yield self._forward
        finally:
            for name, parameter in trained.items():
                parameter.data = own[name]

    def fingerprint(self) -> str:
        """Return a digest of the sums of its weights, which identifies it; empty for the base of adapters, which is fixed."""
        tensors = self._adapters.items() if self._module is None else self._module.named_parameters()
        if not tensors:
            return ""
        digest = hashlib.sha256()
        for name, tensor in tensors:
            digest.update(f"{name} {tensor.double().sum().item():.9e}\n".encode())
        return digest.hexdigest()
