"""The forward pass of Llama-like decoders over a flat list of tokens, with fused projections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from astuner_local.compiled.operations import make_operations
from astuner_local.forward.embedding import read_rows
from astuner_local.forward.families import unwrap_causal_lm
from astuner_local.forward.linear import merge_weight, read_bias
from astuner_local.forward.operations import Operations, TorchOperations
from astuner_local.forward.projection import CastWeights, Projection, read_projection
from astuner_local.forward.rotary import Rotary

if TYPE_CHECKING:
    from astuner_local.compiled.kernels import Kernels
    from astuner_local.forward.seam import Attend


@frozen(eq=False)
class _Dense:
    """Layers of one input, stacked: a copy of their weights [out, in]."""

    weight: Tensor
    bias: Tensor | None


@frozen(kw_only=True, eq=False)
class _Layer:
    """The weights of one layer; q, k, v and gate, up are applied together. A gain of None is folded into these."""

    norm1: Tensor | None
    qkv: _Dense | Projection
    qk_gain: Tensor | None
    """[heads + kv_heads, head_dim], where queries and keys are normalised."""
    out: _Dense | Projection
    norm2: Tensor | None
    gate_up: _Dense | Projection
    down: _Dense | Projection


class FusedForward:
    """Runs a Llama, Mistral, Qwen2 or Qwen3 module by its weights.

    Trainable, it reads the module's own parameters at every call, and gradients flow into them. Otherwise it holds a snapshot
    with the norm gains folded in, taken again by `refresh`; LoRA adapters are merged into it. Dropout is never applied.
    """

    def __init__(
        self, model: nn.Module, dtype: torch.dtype | None = None, *, trainable: bool, kernels: Kernels | None = None
    ) -> None:
        """Take a module that `families.unfusable` accepts; compute in `dtype` (the parameters' own when None).

        Not trainable, it computes by `kernels` of that dtype, if given.
        """
        base = unwrap_causal_lm(model)
        config = base.config
        attention = base.model.layers[0].self_attn
        self._base = base
        self._trainable = trainable
        self.dtype: torch.dtype = dtype or base.model.embed_tokens.weight.dtype
        self.num_layers: int = config.num_hidden_layers
        self.num_heads: int = config.num_attention_heads
        self.num_kv_heads: int = config.num_key_value_heads
        self.head_dim: int = attention.head_dim
        self.vocab_size: int = base.lm_head.weight.shape[0]
        self.scale: float = attention.scaling
        self._eps: float = config.rms_norm_eps
        self._rotary = Rotary(base.model.rotary_emb, self.dtype)
        self._embedding: Tensor | None = None
        self._head: Tensor | None = None
        self._head_bias: Tensor | None = None
        self._norm: Tensor | None = None
        self._layers: list[_Layer] = []
        self._casts = CastWeights(self.dtype)
        self._operations: Operations = TorchOperations()
        self.refresh()
        if kernels is not None and not trainable:
            self._operations = make_operations(kernels, self._list_products(), self.head_dim) or self._operations

    @property
    def unpadded_rows(self) -> int:
        """Up to as many rows have the bits of many."""
        return self._operations.unpadded_rows

    def hidden(self, ids: Tensor, positions: Tensor, attend: Attend, *, recompute: bool = False) -> Tensor:
        """Return the last hidden states [N, d], final norm applied, of `ids` [N] at `positions` [N]."""
        with torch.set_grad_enabled(self._trainable and torch.is_grad_enabled()):
            if self._trainable:
                decoder = self._base.model
                table, norm = decoder.embed_tokens.weight, decoder.norm.weight
                return self._run(table, self._read, norm, ids, positions, attend, recompute=recompute)
            assert self._embedding is not None
            assert self._norm is not None
            return self._run(self._embedding, self._layers.__getitem__, self._norm, ids, positions, attend)

    def logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [R, vocab] of the hidden states [R, d] of the wanted rows."""
        if self._trainable:
            weight, bias = self._read_head()
            return functional.linear(hidden, weight, bias).float()
        assert self._head is not None
        with torch.no_grad():
            return self._operations.linear(hidden, self._head, self._head_bias).float()

    @torch.no_grad()
    def pull_logits(self, hidden: Tensor, differentiate: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the gradient [R, d] at `hidden`, and add that of the head to its parameters."""
        weight, bias = self._read_head()
        grad = differentiate(functional.linear(hidden, weight, bias).float()).to(weight.dtype)  # [R, vocab]
        head = self._base.lm_head
        if head.bias is not None and head.bias.requires_grad:
            _add_gradient(head.bias, grad.sum(0))
        if head.weight.requires_grad:
            if head.weight.grad is not None and head.weight.grad.dtype == grad.dtype:
                # In place: another gradient of the whole vocabulary is as large as the logits of many tokens.
                head.weight.grad.addmm_(grad.t(), hidden)
            else:
                _add_gradient(head.weight, grad.t() @ hidden)
        return grad @ weight

    @torch.no_grad()
    def refresh(self) -> None:
        """Take the snapshot again, into the same memory; a trainable forward frees what it has cast."""
        if self._trainable:
            self._casts.clear()
            return
        base = self._base
        kept: list[_Layer | None] = [*self._layers] or [None] * self.num_layers
        self._layers = [self._fold(*pair) for pair in zip(base.model.layers, kept, strict=True)]
        tied = base.lm_head.weight is base.model.embed_tokens.weight
        self._embedding = self._copy(self._embedding, base.model.embed_tokens.weight)
        self._norm = self._copy(self._norm, base.model.norm.weight)
        self._head = self._embedding if tied else self._copy(self._head, base.lm_head.weight)
        if base.lm_head.bias is not None:
            self._head_bias = self._copy(self._head_bias, base.lm_head.bias)

    def _list_products(self) -> list[tuple[Tensor, Tensor | None]]:
        """Return the weights, and biases, of all linear layers of the snapshot."""
        assert self._head is not None
        found: list[tuple[Tensor, Tensor | None]] = [(self._head, self._head_bias)]
        for layer in self._layers:
            dense = (each for each in (layer.qkv, layer.out, layer.gate_up, layer.down) if isinstance(each, _Dense))
            found += ((each.weight, each.bias) for each in dense)
        return found

    def _copy(self, kept: Tensor | None, source: Tensor) -> Tensor:
        return source.detach().to(self.dtype, copy=True) if kept is None else kept.copy_(source)

    def _run(
        self,
        embedding: Tensor,
        layer_at: Callable[[int], _Layer],
        norm: Tensor,
        ids: Tensor,
        positions: Tensor,
        attend: Attend,
        *,
        recompute: bool = False,
    ) -> Tensor:
        turns = self._rotary(positions)

        def apply(index: int, x: Tensor) -> Tensor:
            return self._apply(layer_at(index), index, x, turns, attend)

        x = self._cast(read_rows(ids, embedding))  # [N, d]
        for index in range(self.num_layers):
            if recompute and torch.is_grad_enabled():
                x = checkpoint(apply, index, x, use_reentrant=False, preserve_rng_state=False)
            else:
                x = apply(index, x)
        return self._operations.normalize(x, self._cast(norm), self._eps)

    def _apply(self, layer: _Layer, index: int, x: Tensor, turns: Tensor, attend: Attend) -> Tensor:
        """Return the states after a layer, [N, d]."""
        heads, kv_heads, dim, eps, do = self.num_heads, self.num_kv_heads, self.head_dim, self._eps, self._operations
        turned = (heads + kv_heads) * dim
        qkv = self._project(layer.qkv, do.normalize(x, layer.norm1, eps))
        qk = qkv[:, :turned].view(-1, heads + kv_heads, dim)
        if layer.qk_gain is not None:
            qk = do.normalize(qk, layer.qk_gain, eps)
        qk = do.rotate(qk, turns)
        v = qkv[:, turned:].view(-1, kv_heads, dim)
        seen = attend(index, qk[:, :heads], qk[:, heads:], v)
        x = x + self._project(layer.out, seen.flatten(1))
        inner = self._project(layer.gate_up, do.normalize(x, layer.norm2, eps))
        return x + self._project(layer.down, inner, gated=True)

    def _project(self, layers: _Dense | Projection, x: Tensor, *, gated: bool = False) -> Tensor:
        if isinstance(layers, Projection):
            return layers(x, gated=gated)
        return self._operations.linear(self._operations.gate(x) if gated else x, layers.weight, layers.bias)

    def _read(self, index: int) -> _Layer:
        """Gather a layer's live parameters, with autograd."""
        layer = self._base.model.layers[index]
        attention, mlp = layer.self_attn, layer.mlp

        def read(*names: str) -> Projection:
            modules = [getattr(attention if hasattr(attention, name) else mlp, name) for name in names]
            return read_projection(modules, partial(self._casts, (index, names)))

        return _Layer(
            norm1=self._cast(layer.input_layernorm.weight),
            qkv=read("q_proj", "k_proj", "v_proj"),
            qk_gain=self._qk_gain(attention),
            out=read("o_proj"),
            norm2=self._cast(layer.post_attention_layernorm.weight),
            gate_up=read("gate_proj", "up_proj"),
            down=read("down_proj"),
        )

    def _read_head(self) -> tuple[Tensor, Tensor | None]:
        head = self._base.lm_head
        # With autograd the cast must be part of the graph.
        live = torch.is_grad_enabled() and head.weight.requires_grad
        weight = self._cast(head.weight) if live else self._casts("head", [head.weight])
        return head.weight if weight is None else weight, None if head.bias is None else self._cast(head.bias)

    def _fold(self, layer: Any, kept: _Layer | None) -> _Layer:
        """Copy a layer's weights, norm gains folded in and adapters merged, to where `kept` has them."""
        attention, mlp = layer.self_attn, layer.mlp
        norm1, norm2 = layer.input_layernorm.weight.detach(), layer.post_attention_layernorm.weight.detach()
        gain = self._qk_gain(attention)
        qkv, out, gate_up, down = (None,) * 4 if kept is None else (kept.qkv, kept.out, kept.gate_up, kept.down)
        return _Layer(
            norm1=None,
            qkv=self._stack(qkv, (attention.q_proj, attention.k_proj, attention.v_proj), norm1),
            qk_gain=None if gain is None else gain.detach(),
            out=self._stack(out, (attention.o_proj,)),
            norm2=None,
            gate_up=self._stack(gate_up, (mlp.gate_proj, mlp.up_proj), norm2),
            down=self._stack(down, (mlp.down_proj,)),
        )

    def _stack(self, kept: _Dense | Projection | None, modules: Sequence[nn.Module], gain: Tensor | None = None) -> _Dense:
        merged = [merge_weight(module) for module in modules]
        rows, inner = [weight.shape[0] for weight in merged], merged[0].shape[1]
        stacked = kept.weight if isinstance(kept, _Dense) else merged[0].new_empty(sum(rows), inner, dtype=self.dtype)
        for weight, piece in zip(merged, torch.split(stacked, rows), strict=True):
            if gain is None:
                piece.copy_(weight)
            else:
                torch.mul(weight, gain, out=piece)
        biases = [bias for module in modules if (bias := read_bias(module)) is not None]
        return _Dense(stacked, self._cast(torch.cat(biases)) if biases else None)

    def _qk_gain(self, attention: Any) -> Tensor | None:
        if not hasattr(attention, "q_norm"):
            return None
        gains = [attention.q_norm.weight] * self.num_heads + [attention.k_norm.weight] * self.num_kv_heads
        return self._cast(torch.stack(gains))

    def _cast(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype)


def _add_gradient(parameter: Tensor, grad: Tensor) -> None:
    grad = grad.to(parameter.dtype)
    parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
