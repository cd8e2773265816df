"""The forward pass of Llama-like decoders over a flat list of tokens, with fused projections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from attrs import frozen
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from astuner_local.compiled.operations import make_operations
from astuner_local.forward.families import unwrap_causal_lm
from astuner_local.forward.linear import merge_weight, read_bias
from astuner_local.forward.operations import Operations, TorchOperations
from astuner_local.forward.rotary import Rotary

if TYPE_CHECKING:
    from astuner_local.compiled.kernels import Kernels
    from astuner_local.forward.seam import Attend


@frozen(kw_only=True, eq=False)
class _Layer:
    """The weights of one layer, [out, in] each; q, k, v and gate, up are stacked. A gain of None is folded into these."""

    norm1: Tensor | None
    qkv: Tensor
    qkv_bias: Tensor | None
    qk_gain: Tensor | None
    """[heads + kv_heads, head_dim], where queries and keys are normalised."""
    out: Tensor
    out_bias: Tensor | None
    norm2: Tensor | None
    gate_up: Tensor
    gate_up_bias: Tensor | None
    down: Tensor
    down_bias: Tensor | None

    def tensors(self) -> list[Tensor]:
        """Return the weights that exist, in a fixed order."""
        names = ("qkv", "qkv_bias", "qk_gain", "out", "out_bias", "gate_up", "gate_up_bias", "down", "down_bias")
        return [tensor for name in names if (tensor := getattr(self, name)) is not None]


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
            head = self._base.lm_head
            bias = None if head.bias is None else self._cast(head.bias)
            return functional.linear(hidden, self._cast(head.weight), bias).float()
        assert self._head is not None
        with torch.no_grad():
            return self._operations.linear(hidden, self._head, self._head_bias).float()

    @torch.no_grad()
    def refresh(self) -> None:
        """Take the snapshot again, into the same memory; nothing to do for a trainable forward."""
        if self._trainable:
            return
        base = self._base
        for index, layer in enumerate(base.model.layers):
            fresh = self._fold(layer)
            if index == len(self._layers):
                self._layers.append(fresh)
            else:
                for mine, new in zip(self._layers[index].tensors(), fresh.tensors(), strict=True):
                    mine.copy_(new)
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
            found += [(layer.qkv, layer.qkv_bias), (layer.out, layer.out_bias)]
            found += [(layer.gate_up, layer.gate_up_bias), (layer.down, layer.down_bias)]
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

        x = self._cast(functional.embedding(ids, embedding))  # [N, d]
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
        qkv = do.linear(do.normalize(x, layer.norm1, eps), layer.qkv, layer.qkv_bias)
        qk = qkv[:, :turned].view(-1, heads + kv_heads, dim)
        if layer.qk_gain is not None:
            qk = do.normalize(qk, layer.qk_gain, eps)
        qk = do.rotate(qk, turns)
        v = qkv[:, turned:].view(-1, kv_heads, dim)
        seen = attend(index, qk[:, :heads], qk[:, heads:], v)
        x = x + do.linear(seen.flatten(1), layer.out, layer.out_bias)
        inner = do.gate(do.linear(do.normalize(x, layer.norm2, eps), layer.gate_up, layer.gate_up_bias))
        return x + do.linear(inner, layer.down, layer.down_bias)

    def _read(self, index: int) -> _Layer:
        """Gather a layer's live parameters, with autograd."""
        layer = self._base.model.layers[index]
        attention, mlp = layer.self_attn, layer.mlp
        qkv, gate_up = (attention.q_proj, attention.k_proj, attention.v_proj), (mlp.gate_proj, mlp.up_proj)
        return _Layer(
            norm1=self._cast(layer.input_layernorm.weight),
            qkv=self._cast(torch.cat([part.weight for part in qkv])),
            qkv_bias=self._stack_biases([part.bias for part in qkv]),
            qk_gain=self._qk_gain(attention),
            out=self._cast(attention.o_proj.weight),
            out_bias=self._stack_biases([attention.o_proj.bias]),
            norm2=self._cast(layer.post_attention_layernorm.weight),
            gate_up=self._cast(torch.cat([part.weight for part in gate_up])),
            gate_up_bias=self._stack_biases([part.bias for part in gate_up]),
            down=self._cast(mlp.down_proj.weight),
            down_bias=self._stack_biases([mlp.down_proj.bias]),
        )

    def _fold(self, layer: Any) -> _Layer:
        """Copy a layer's weights, norm gains folded in and adapters merged."""
        attention, mlp = layer.self_attn, layer.mlp
        qkv, gate_up = (attention.q_proj, attention.k_proj, attention.v_proj), (mlp.gate_proj, mlp.up_proj)
        norm1, norm2 = layer.input_layernorm.weight.detach(), layer.post_attention_layernorm.weight.detach()
        gain = self._qk_gain(attention)
        return _Layer(
            norm1=None,
            qkv=self._cast(torch.cat([merge_weight(part) for part in qkv]) * norm1),
            qkv_bias=self._stack_biases([read_bias(part) for part in qkv]),
            qk_gain=None if gain is None else gain.detach(),
            out=merge_weight(attention.o_proj).to(self.dtype, copy=True),
            out_bias=self._stack_biases([read_bias(attention.o_proj)]),
            norm2=None,
            gate_up=self._cast(torch.cat([merge_weight(part) for part in gate_up]) * norm2),
            gate_up_bias=self._stack_biases([read_bias(part) for part in gate_up]),
            down=merge_weight(mlp.down_proj).to(self.dtype, copy=True),
            down_bias=self._stack_biases([read_bias(mlp.down_proj)]),
        )

    def _qk_gain(self, attention: Any) -> Tensor | None:
        if not hasattr(attention, "q_norm"):
            return None
        gains = [attention.q_norm.weight] * self.num_heads + [attention.k_norm.weight] * self.num_kv_heads
        return self._cast(torch.stack(gains))

    def _stack_biases(self, biases: Sequence[Tensor | None]) -> Tensor | None:
        present = [bias for bias in biases if bias is not None]
        return self._cast(torch.cat(present)) if present else None

    def _cast(self, tensor: Tensor) -> Tensor:
        return tensor.to(self.dtype)
