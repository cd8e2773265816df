"""Layers of one input, against autograd through their plain formulas."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from astuner_local.forward.embedding import read_rows
from astuner_local.forward.projection import Adapter, CastWeights, Projection


def make_tensor(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def compute_plainly(x: Tensor, found: Projection, gated: bool) -> Tensor:
    if gated:
        gate, up = x.chunk(2, -1)
        x = functional.silu(gate) * up
    parts = [functional.linear(x, weight, bias) for weight, bias in zip(found.weights, found.biases, strict=True)]
    for adapter in found.adapters:
        parts[adapter.place] = parts[adapter.place] + adapter.scale * (x @ adapter.down.t() @ adapter.up.t())
    return torch.cat(parts, 1)


def list_tensors(x: Tensor, found: Projection) -> list[Tensor]:
    adapters = [part for adapter in found.adapters for part in (adapter.down, adapter.up)]
    return [each for each in (x, *found.weights, *found.biases, *adapters) if each is not None]


@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("biases", [(True, True), (False, True), (False, False)])
@pytest.mark.parametrize("frozen", [False, True])
def test_the_gradients_are_those_of_autograd(gated: bool, biases: Sequence[bool], frozen: bool) -> None:
    x = make_tensor(5, 12 if gated else 6, seed=0)
    layers = Projection(
        weights=[make_tensor(4, 6, seed=1), make_tensor(3, 6, seed=2)],
        biases=[make_tensor(size, seed=3) if has else None for size, has in zip((4, 3), biases, strict=True)],
        adapters=[Adapter(place=1, down=make_tensor(2, 6, seed=4), up=make_tensor(3, 2, seed=5), scale=0.5)],
        cast=None,
    )
    for weight in layers.weights:
        weight.requires_grad_(not frozen)
    tensors = [tensor for tensor in list_tensors(x, layers) if tensor.requires_grad]
    expected = compute_plainly(x, layers, gated)
    found = layers(x, gated=gated)
    torch.testing.assert_close(found, expected)
    slope = make_tensor(5, 7, seed=6).detach()
    for own, plain in zip(torch.autograd.grad(found, tensors, slope), torch.autograd.grad(expected, tensors, slope), strict=True):
        torch.testing.assert_close(own, plain)


def test_an_input_without_a_gradient_gets_none() -> None:
    layers = Projection(weights=[make_tensor(4, 6, seed=1)], biases=[None], adapters=(), cast=None)
    x = make_tensor(5, 6, seed=0).detach()
    layers(x).sum().backward()
    assert x.grad is None
    torch.testing.assert_close(layers.weights[0].grad, x.sum(0).expand(4, 6))


def test_weights_are_cast_once_until_they_change() -> None:
    casts, weights = CastWeights(torch.bfloat16), [nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(1, 2))]
    first = casts("layer", weights)
    assert first is not None
    assert first.shape == (4, 2)
    assert casts("layer", weights) is first
    with torch.no_grad():
        weights[1].mul_(2)
    second = casts("layer", weights)
    assert second is not None
    torch.testing.assert_close(second, torch.cat([w.detach() for w in weights]).bfloat16())
    weights[0].data = torch.zeros(3, 2)
    third = casts("layer", weights)
    assert third is not None
    assert not third[:3].any()
    assert CastWeights(torch.float32)("layer", weights) is None


def test_the_gradient_of_an_embedding_is_added_to_the_one_that_is_there() -> None:
    table, ids = make_tensor(9, 4, seed=0), torch.tensor([3, 1, 3, 8])
    slope = make_tensor(4, 4, seed=1).detach()
    (expected,) = torch.autograd.grad(functional.embedding(ids, table), table, slope)
    read_rows(ids, table).backward(slope)
    assert table.grad is not None
    assert not table.grad.is_sparse
    torch.testing.assert_close(table.grad, expected)
    read_rows(ids, table).backward(slope)
    assert not table.grad.is_sparse
    torch.testing.assert_close(table.grad, 2 * expected)
