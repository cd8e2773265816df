"""What a decoder layer computes besides attention, by torch."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor
from torch.nn import functional

from astuner_local.forward.rms_norm import rms_norm
from astuner_local.forward.rotary import rotate


class Operations(Protocol):
    """The operations of a layer on N tokens."""

    unpadded_rows: int
    """Up to as many rows of a linear layer have the bits of many."""

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return x [N, inner] times weight [columns, inner], transposed, plus bias."""
        ...

    def normalize(self, x: Tensor, gain: Tensor | None, eps: float) -> Tensor:
        """Return x / rms(x) * gain over the last dimension."""
        ...

    def rotate(self, x: Tensor, turns: Tensor) -> Tensor:
        """Return x [N, heads, head_dim] turned to its positions by turns [N, 2, head_dim]; x may be overwritten."""
        ...

    def gate(self, x: Tensor) -> Tensor:
        """Return silu(g) * u of x [N, 2 * size], which is g then u."""
        ...


class TorchOperations:
    """Differentiable, on any device."""

    unpadded_rows = 0
    linear = staticmethod(functional.linear)
    normalize = staticmethod(rms_norm)
    rotate = staticmethod(rotate)

    def gate(self, x: Tensor) -> Tensor:
        """Return silu(g) * u of x [N, 2 * size], which is g then u."""
        gate, up = x.chunk(2, -1)
        return functional.silu(gate) * up
