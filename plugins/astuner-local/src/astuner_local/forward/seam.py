"""The seam between a decoder's weights and its attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]
    """`attend(layer, q, k, v) -> o`, with rotary positions applied to q [N, heads, head_dim], k and v [N, kv_heads, head_dim];
    o is [N, heads, head_dim]. The caller decides which token sees which: the engine through its KV cache, the trainer
    through its packing. The scale is `head_dim ** -0.5` unless `Forward.scale` says otherwise."""


class Forward(Protocol):
    """A causal language model as two functions over a flat list of tokens."""

    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    vocab_size: int
    scale: float

    @property
    def unpadded_rows(self) -> int:
        """Up to as many rows have the bits of many; more are padded by the caller where bits are promised."""
        ...

    def hidden(self, ids: Tensor, positions: Tensor, attend: Attend, *, recompute: bool = False) -> Tensor:
        """Return the last hidden states [N, d], final norm applied, of `ids` [N] at `positions` [N].

        With `recompute` the backward pass computes each layer again, so that only the layers' inputs are kept. The result and the
        gradients have the same bits.
        """
        ...

    def logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [R, vocab] of the hidden states [R, d] of the wanted rows."""
        ...

    def pull_logits(self, hidden: Tensor, differentiate: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the gradient [R, d] at `hidden`, and add that of the head to its parameters.

        `differentiate` gets the logits of `logits(hidden)`, and returns the gradient at them; it may write it over them.
        """
        ...

    def refresh(self) -> None:
        """Take over the module's current weights, where the forward keeps its own (fused, cast) copies of them."""
        ...
