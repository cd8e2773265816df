"""The forward pass of any transformers decoder over a flat list of tokens, through the library's attention interface."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from astuner.contract.errors import AstunerError
from astuner_local.forward.families import unwrap_causal_lm

if TYPE_CHECKING:
    from astuner_local.forward.seam import Attend

ATTENTION = "astuner_packed"
"""The name of the attention function in transformers.

It has no mask function, so the library builds no mask, and only `attend` decides what a token sees.
"""

_FULL_CAUSAL = ("sliding_window", "softcap", "s_aux", "position_bias")
"""Arguments of attention functions that make it something else than full causal attention, unless they are None."""


class UnsupportedModel(AstunerError):
    """A model whose tokens cannot be packed; the message gives the reason and a remedy."""


def _attend_packed(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    astuner_attend: Attend | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Hand q, k and v of shape [1, heads, N, head_dim] to the caller's `attend`."""
    other = [name for name in _FULL_CAUSAL if kwargs.get(name) is not None]
    if astuner_attend is None or other:
        what = f"its attention takes {', '.join(other)}" if other else "it does not pass arguments on to its attention"
        raise UnsupportedModel(f"{type(module).__name__}: {what}, so its tokens cannot be packed")
    layer = module.layer_idx
    assert isinstance(layer, int)
    # Under autocast the rotary embedding leaves q and k in float32.
    q, k, v = (x[0].transpose(0, 1).to(value.dtype) for x in (query, key, value))
    return astuner_attend(layer, q, k, v).unsqueeze(0), None


def _checkpoints(base: Any) -> bool:
    """Whether the layers run again for the backward pass; later versions of transformers 5 renamed the flag."""
    name = "is_activation_checkpointing" if hasattr(type(base), "is_activation_checkpointing") else "is_gradient_checkpointing"
    return bool(getattr(base, name, False))


def _find_layers(decoder: nn.Module, number: int) -> list[nn.Module]:
    """Return the layers of a decoder; raises UnsupportedModel if it has no list of them."""
    for child in decoder.children():
        if isinstance(child, nn.ModuleList) and len(child) == number:
            return list(child)
    raise UnsupportedModel(
        f"{type(decoder).__name__} has no list of its {number} layers, so they cannot be computed again one by one; "
        "set local.trainer.recompute_activations: false"
    )


class TransformersForward:
    """Runs a causal language model of transformers, wrapped by PEFT or not; gradients flow wherever the module lets them."""

    unpadded_rows: int = 0

    def __init__(self, model: nn.Module, dtype: torch.dtype | None = None, *, trainable: bool = True) -> None:
        """Take a model; compute in `dtype` (autocast from the parameters' own; that one when None).

        Raises UnsupportedModel when its attention does not go through the library's interface once per layer.
        """
        if ATTENTION not in ALL_ATTENTION_FUNCTIONS:
            ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend_packed)
        base = unwrap_causal_lm(model)
        self._base = base
        self._decoder = base.base_model
        self._head = base.get_output_embeddings()
        if self._head is None or self._decoder is base:
            raise UnsupportedModel(f"{type(base).__name__} is not a decoder with an output layer")
        self._trainable = trainable
        own = self._head.weight.dtype
        self.dtype: torch.dtype = dtype or own
        self._autocast = self.dtype != own
        self.num_layers: int = base.config.get_text_config().num_hidden_layers
        self.vocab_size: int = self._head.weight.shape[0]
        self.num_heads, self.num_kv_heads, self.head_dim, self.scale = self._probe()

    def hidden(self, ids: Tensor, positions: Tensor, attend: Attend, *, recompute: bool = False) -> Tensor:
        """Return the last hidden states [N, d], final norm applied, of `ids` [N] at `positions` [N]."""
        if self._base.training and _checkpoints(self._base):
            # Its second forward pass would run outside this call, with the module's usual attention.
            raise UnsupportedModel(
                "gradient checkpointing of the module does not go with packed attention; "
                "call model.gradient_checkpointing_disable() and use `recompute` instead"
            )
        kept = nullcontext() if not (recompute and self._trainable and torch.is_grad_enabled()) else self._recompute_layers()
        with self._compute_mode(), self._attention(), self._disable_dropout(), kept:
            out = self._decoder(input_ids=ids[None], position_ids=positions[None], use_cache=False, astuner_attend=attend)
            hidden: Tensor = out.last_hidden_state[0]
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Return float32 logits [R, vocab] of the hidden states [R, d] of the wanted rows."""
        with self._compute_mode():
            logits: Tensor = self._head(hidden)
        return logits.float()

    def pull_logits(self, hidden: Tensor, differentiate: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the gradient [R, d] at `hidden`, and add that of the head to its parameters."""
        leaf = hidden.detach().requires_grad_()
        logits = self.logits(leaf)
        logits.backward(differentiate(logits.detach()))  # type: ignore[no-untyped-call]  # torch ships it without types
        assert leaf.grad is not None
        return leaf.grad

    def refresh(self) -> None:
        """Do nothing: the module's weights are read at every call."""

    @contextmanager
    def _compute_mode(self) -> Iterator[None]:
        device = self._head.weight.device.type
        with (
            torch.set_grad_enabled(self._trainable and torch.is_grad_enabled()),
            torch.autocast(device, dtype=self.dtype, enabled=self._autocast),
        ):
            yield

    @contextmanager
    def _attention(self) -> Iterator[None]:
        """Let the module use our attention for one call; otherwise it stays an ordinary module."""
        config = self._base.config
        usual = config._attn_implementation
        config._attn_implementation = ATTENTION
        try:
            yield
        finally:
            config._attn_implementation = usual

    @contextmanager
    def _recompute_layers(self) -> Iterator[None]:
        """Let each layer run again in the backward pass, with our attention there too, for the forward passes of a while."""
        layers = _find_layers(self._decoder, self.num_layers)
        before = [vars(layer).get("forward") for layer in layers]
        for layer in layers:
            layer.forward = partial(checkpoint, self._attend_within(layer.forward), use_reentrant=False, preserve_rng_state=False)
        try:
            yield
        finally:
            for layer, own in zip(layers, before, strict=True):
                if own is None:
                    del layer.forward
                else:
                    layer.forward = own

    def _attend_within(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **kwargs: Any) -> Any:
            with self._attention():
                return forward(*args, **kwargs)

        return run

    @contextmanager
    def _disable_dropout(self) -> Iterator[None]:
        """Run a module in evaluation mode unless it is run to be trained."""
        if self._trainable or not self._base.training:
            yield
            return
        self._base.eval()
        try:
            yield
        finally:
            self._base.train()

    def _probe(self) -> tuple[int, int, int, float]:
        """Return heads, kv heads, head_dim and scale, as seen in a short run."""
        seen: list[tuple[int, int, int]] = []
        layers: list[int] = []
        scales: set[float] = set()

        def attend(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            layers.append(layer)
            seen.append((q.shape[1], k.shape[1], q.shape[2]))
            return q

        def watch(module: nn.Module, query: Tensor, *args: Any, **kwargs: Any) -> Any:
            scaling = kwargs.get("scaling")
            scales.add(query.shape[-1] ** -0.5 if scaling is None else scaling)
            return _attend_packed(module, query, *args, **kwargs)

        ids = torch.arange(2, device=self._head.weight.device)
        training = self._base.training
        self._base.eval()
        ALL_ATTENTION_FUNCTIONS.register(ATTENTION, watch)
        try:
            with torch.no_grad():
                self.hidden(ids, ids, attend)
        finally:
            ALL_ATTENTION_FUNCTIONS.register(ATTENTION, _attend_packed)
            self._base.train(training)
        name = type(self._base).__name__
        if layers != list(range(self.num_layers)):
            raise UnsupportedModel(
                f"{name}: {len(layers)} of {self.num_layers} layers attend through transformers' attention interface"
            )
        if len(set(seen)) != 1 or len(scales) != 1:
            raise UnsupportedModel(f"{name}: its layers differ in heads, head size or scale")
        return *seen[0], scales.pop()
