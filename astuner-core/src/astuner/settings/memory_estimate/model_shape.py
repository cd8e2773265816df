"""The sizes of a decoder, read from its `config.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

LINEAR = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")

_UNKNOWN = ("num_experts", "num_local_experts", "n_routed_experts", "kv_lora_rank", "linear_num_key_heads", "state_size")
"""Keys of mixtures of experts, latent attention and state-space layers, which these formulas do not count."""
_BIASED = frozenset({"qwen2"})
"""Families whose queries, keys and values have biases without a key that says so."""
_NORMED = frozenset({"qwen3"})
"""Families that normalise queries and keys."""


@frozen(kw_only=True)
class ModelShape:
    """A dense decoder: attention with grouped heads, and a gated MLP in each layer."""

    family: str
    layers: int
    width: int
    inner: int
    """Of the MLP."""
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    """Whether the output layer is the embedding."""
    qkv_bias: bool
    qk_norm: bool
    stored_dtype: str
    """Of the checkpoint's weights; `float32` if it does not say."""

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> ModelShape | None:
        """Return the shape that a `config.json` describes; None if it is not a dense decoder of this kind."""
        text = config.get("text_config") or config
        if any(text.get(key) for key in _UNKNOWN):
            return None
        try:
            width, heads = int(text["hidden_size"]), int(text["num_attention_heads"])
            return cls(
                family=str(text.get("model_type", "")),
                layers=int(text["num_hidden_layers"]),
                width=width,
                inner=int(text["intermediate_size"]),
                heads=heads,
                kv_heads=int(text.get("num_key_value_heads") or heads),
                head_dim=int(text.get("head_dim") or width // heads),
                vocabulary=int(text["vocab_size"]),
                tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", True))),
                qkv_bias=bool(text.get("attention_bias", text.get("model_type") in _BIASED)),
                qk_norm=text.get("model_type") in _NORMED,
                stored_dtype=str(config.get("dtype") or config.get("torch_dtype") or "float32"),
            )
        except (KeyError, TypeError, ValueError, ZeroDivisionError):
            return None

    @property
    def query_size(self) -> int:
        """Numbers of a token's queries in a layer."""
        return self.heads * self.head_dim

    @property
    def key_size(self) -> int:
        """Numbers of a token's keys in a layer, and of its values."""
        return self.kv_heads * self.head_dim

    @property
    def layer_parameters(self) -> int:
        """Weights of a layer."""
        linear = sum(into * out for into, out in self._linear_sizes().values())
        biases = (self.query_size + 2 * self.key_size) * self.qkv_bias
        return linear + biases + 2 * self.width + 2 * self.head_dim * self.qk_norm

    @property
    def table_parameters(self) -> int:
        """Weights of the embedding, or of the output layer."""
        return self.vocabulary * self.width

    @property
    def parameters(self) -> int:
        """All weights."""
        return self.layers * self.layer_parameters + self.table_parameters * (2 - self.tied) + self.width

    def count_adapter_parameters(self, rank: int, targets: str | Sequence[str] = "all-linear") -> int:
        """Return the weights of LoRA adapters on the named projections of every layer."""
        sizes = self._linear_sizes()
        chosen = sizes.values() if isinstance(targets, str) else [sizes[name] for name in targets if name in sizes]
        return self.layers * rank * sum(into + out for into, out in chosen)

    def count_kv_bytes(self, item: int) -> int:
        """Return the bytes of one token's keys and values over all layers, of numbers with `item` bytes."""
        return 2 * self.layers * self.key_size * item

    def _linear_sizes(self) -> dict[str, tuple[int, int]]:
        width, inner, queries, keys = self.width, self.inner, self.query_size, self.key_size
        sizes = ((width, queries), (width, keys), (width, keys), (queries, width), (width, inner), (width, inner), (inner, width))
        return dict(zip(LINEAR, sizes, strict=True))
