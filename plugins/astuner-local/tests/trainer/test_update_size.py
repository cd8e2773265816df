"""How far a step moves the weights."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from astuner_local.trainer.update_size import SAMPLED, UpdateSize


def make_weights(*sizes: int) -> list[nn.Parameter]:
    draws = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(size, generator=draws)) for size in sizes]


def test_a_change_is_measured_against_the_weights():
    weights = make_weights(100, 7)
    size = UpdateSize(weights)
    with torch.no_grad():
        for weight in weights:
            weight.mul_(1.01)
    assert size.measure() == pytest.approx(0.01, rel=1e-4)


def test_weights_that_stay_have_moved_by_nothing():
    assert UpdateSize(make_weights(3)).measure() == 0.0


def test_a_large_tensor_counts_by_all_of_its_numbers():
    small, large = make_weights(SAMPLED, 50 * SAMPLED)
    size = UpdateSize([small, large])
    whole = float(small.square().sum() + large.square().sum())
    with torch.no_grad():
        large.add_(0.001)
    assert size.measure() == pytest.approx(math.sqrt(large.numel() * 1e-6 / whole), rel=0.02)


def test_a_tensor_that_is_not_contiguous_is_measured_too():
    weight = nn.Parameter(torch.ones(4, 6).t())
    size = UpdateSize([weight])
    with torch.no_grad():
        weight.fill_(3.0)
    assert size.measure() == pytest.approx(2.0)


def test_adapters_that_begin_at_zero_have_no_size_to_be_measured_against():
    weight = nn.Parameter(torch.zeros(3))
    size = UpdateSize([weight])
    with torch.no_grad():
        weight.fill_(1.0)
    assert size.measure() == 0.0
