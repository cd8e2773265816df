"""Attention of one engine step by the compiled kernels."""

from __future__ import annotations

from attrs import field, frozen
from torch import Tensor

from astuner_local.compiled.kernels import Kernels
from astuner_local.engine.kv_cache import KvCache


@frozen(eq=False)
class CompiledAttention:
    """The `attend` of one step; see `attention.StepAttention`, whose promises it keeps without padding."""

    kernels: Kernels
    cache: KvCache
    slots: Tensor
    """The slot of each token, [N]; -1 for padding."""
    positions: Tensor
    scale: float = field(kw_only=True)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Store k and v [N, kv_heads, head_dim], and return what q [N, heads, head_dim] attends to."""
        return self.kernels.attend(q, k, v, self.cache.layers[layer], self.slots, self.positions, scale=self.scale)
