"""Linear layers of one input, with LoRA adapters or without, and a backward pass that copies no weights.

The weights of the layers are used where they lie. Autograd would stack them for each pass, keep the stack for the backward pass,
and split its gradient. In another precision than their own they are stacked once, for all passes until they change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from attrs import field, frozen
from torch import Tensor, nn
from torch.nn import functional

from astuner_local.forward.linear import is_plain, read_bias


@frozen(kw_only=True, eq=False)
class Adapter:
    """Adds `scale`·B·A to one of the layers."""

    place: int
    """Which one."""
    down: Tensor
    """[rank, in]"""
    up: Tensor
    """[out, rank]"""
    scale: float


@frozen(kw_only=True, eq=False)
class Projection:
    """Layers of one input."""

    weights: Sequence[Tensor]
    """[out, in] each; parameters"""
    biases: Sequence[Tensor | None]
    adapters: Sequence[Adapter]
    cast: Tensor | None
    """[all out, in] the weights in the precision that is computed in, where it is not their own."""

    def __call__(self, x: Tensor, *, gated: bool = False) -> Tensor:
        """Return [N, all out] of x [N, in]; `gated`, of silu(gate)·up for the halves gate and up of x [N, 2·in]."""
        tensors = [*self.weights, *(bias for bias in self.biases if bias is not None)]
        tensors += [part for adapter in self.adapters for part in (adapter.down, adapter.up)]
        result: Tensor = _Project.apply(x, self, gated, *tensors)  # type: ignore[no-untyped-call]  # torch ships it without types
        return result


class CastWeights:
    """Weights in the precision that is computed in, stacked; taken again when they have changed."""

    def __init__(self, dtype: torch.dtype) -> None:
        """Cast to `dtype`."""
        self._dtype = dtype
        self._kept: dict[Any, tuple[Any, Tensor]] = {}

    def clear(self) -> None:
        """Free them."""
        self._kept.clear()

    def __call__(self, key: Any, weights: Sequence[Tensor]) -> Tensor | None:
        """Return those that `key` stands for; None if `weights` have the precision already."""
        if all(weight.dtype == self._dtype for weight in weights):
            return None
        state = [(weight.data_ptr(), weight._version) for weight in weights]
        found = self._kept.get(key)
        if found is None or found[0] != state:
            with torch.no_grad():
                stacked = [weight.to(self._dtype) for weight in weights]
                found = self._kept[key] = (state, stacked[0] if len(stacked) == 1 else torch.cat(stacked))
        return found[1]


def read_projection(modules: Sequence[nn.Module], cast: Callable[[Sequence[Tensor]], Tensor | None]) -> Projection:
    """Gather the live parameters of linear layers of one input, under whatever adapters `is_mergeable` accepts."""
    layers = [module if is_plain(module) else module.base_layer for module in modules]
    weights = [layer.weight for layer in layers]  # type: ignore[union-attr]  # all are linear
    adapters = [adapter for place, module in enumerate(modules) for adapter in _list_adapters(place, module)]
    return Projection(
        weights=weights,  # type: ignore[arg-type]  # all are linear
        biases=[read_bias(module) for module in modules],
        adapters=adapters,
        cast=cast(weights),  # type: ignore[arg-type]  # all are linear
    )


def _list_adapters(place: int, module: Any) -> Iterator[Adapter]:
    if is_plain(module) or module.disable_adapters:
        return
    for name in module.active_adapters:
        if name in module.lora_A and name not in module.merged_adapters:
            down, up = module.lora_A[name].weight, module.lora_B[name].weight
            yield Adapter(place=place, down=down, up=up, scale=module.scaling[name])


@frozen(eq=False)
class _Pieces:
    """The columns of a result [N, all out], by layer."""

    projection: Projection
    sizes: Sequence[int] = field(init=False)

    @sizes.default
    def _read_sizes(self) -> Sequence[int]:
        return [weight.shape[0] for weight in self.projection.weights]

    def split(self, columns: Tensor) -> Sequence[Tensor]:
        return torch.split(columns, list(self.sizes), 1)


class _Project(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, projection: Projection, gated: bool, *tensors: Tensor) -> Tensor:
        entered = _gate(x) if gated else x
        pieces = _Pieces(projection)
        if projection.cast is not None:
            out = torch.mm(entered, projection.cast.t())
        elif len(projection.weights) == 1:
            out = torch.mm(entered, projection.weights[0].t())
        else:
            out = entered.new_empty(entered.shape[0], sum(pieces.sizes))
            for weight, piece in zip(projection.weights, pieces.split(out), strict=True):
                torch.mm(entered, weight.t(), out=piece)
        columns = pieces.split(out)
        for bias, piece in zip(projection.biases, columns, strict=True):
            if bias is not None:
                piece += bias
        narrow = []
        for adapter in projection.adapters:
            inner = entered.to(adapter.down.dtype) @ adapter.down.t()  # [N, rank]
            _add_product(columns[adapter.place], inner, adapter.up.t(), adapter.scale)
            narrow.append(inner)
        ctx.save_for_backward(x, *tensors, *narrow, *(() if projection.cast is None else (projection.cast,)))
        ctx.projection, ctx.gated, ctx.narrow = projection, gated, len(narrow)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        projection: Projection = ctx.projection
        x, *saved = ctx.saved_tensors
        number = len(ctx.needs_input_grad) - 3
        narrow = saved[number : number + ctx.narrow]
        entered = _gate(x) if ctx.gated else x
        grad = grads[0]
        columns = _Pieces(projection).split(grad)
        needs_x, wanted = ctx.needs_input_grad[0], iter(ctx.needs_input_grad[3:])
        found: list[Tensor | None] = []
        whole = grad.t() @ entered if projection.cast is not None and any(ctx.needs_input_grad[3 : 3 + len(columns)]) else None
        of_weights = columns if whole is None else torch.split(whole, [piece.shape[1] for piece in columns])
        for weight, piece in zip(projection.weights, of_weights, strict=True):
            if not next(wanted):
                found.append(None)
            else:
                found.append(piece.t() @ entered if whole is None else piece.to(weight.dtype))
        for bias, piece in zip(projection.biases, columns, strict=True):
            if bias is not None:
                found.append(piece.sum(0, dtype=bias.dtype) if next(wanted) else None)
        grad_x = _pull(projection, grad, columns) if needs_x else None
        for adapter, inner in zip(projection.adapters, narrow, strict=True):
            piece = columns[adapter.place].to(inner.dtype)
            back = (piece @ adapter.up).mul_(adapter.scale)  # [N, rank]
            found.append(back.t() @ entered.to(inner.dtype) if next(wanted) else None)
            found.append((piece.t() @ inner).mul_(adapter.scale) if next(wanted) else None)
            if grad_x is not None:
                _add_product(grad_x, back, adapter.down, 1.0)
        del entered
        if ctx.gated and grad_x is not None:
            grad_x = _pull_gate(x, grad_x)
        return grad_x, None, None, *found


def _pull(projection: Projection, grad: Tensor, columns: Sequence[Tensor]) -> Tensor:
    """Return the gradient at the input, without what comes through the adapters."""
    if projection.cast is not None:
        return grad @ projection.cast
    first, *others = zip(columns, projection.weights, strict=True)
    found = first[0] @ first[1]
    for piece, weight in others:
        found.addmm_(piece, weight)
    return found


def _add_product(target: Tensor, a: Tensor, b: Tensor, scale: float) -> None:
    """Add scale·a·b, in the precision of a and b."""
    if target.dtype == a.dtype:
        target.addmm_(a, b, alpha=scale)
    else:
        target += (a @ b).mul_(scale)


def _gate(x: Tensor) -> Tensor:
    gate, up = x.chunk(2, -1)
    return functional.silu(gate).mul_(up)


def _pull_gate(x: Tensor, grad: Tensor) -> Tensor:
    """Return the gradient at gate and up [N, 2·in] of that at their product [N, in], which is overwritten."""
    gate, up = x.chunk(2, -1)
    found = torch.empty_like(x)
    of_gate, of_up = found.chunk(2, -1)
    torch.ops.aten.silu.out(gate, out=of_up).mul_(grad)
    torch.ops.aten.silu_backward.grad_input(grad.mul_(up), gate, grad_input=of_gate)
    return found
