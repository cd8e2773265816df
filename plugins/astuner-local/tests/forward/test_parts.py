from __future__ import annotations

import pytest
import torch
from torch import nn

from astuner_local.forward.rms_norm import rms_norm
from astuner_local.forward.rotary import Rotary


def test_rms_norm_has_the_gradient_of_its_formula():
    x, gain = torch.randn(5, 7, 12, requires_grad=True), torch.randn(12, requires_grad=True)
    weights = torch.randn(5, 7, 12)
    (rms_norm(x, gain, 1e-6) * weights).sum().backward()
    found = x.grad.clone(), gain.grad.clone()
    x.grad = gain.grad = None
    ((x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gain) * weights).sum().backward()
    torch.testing.assert_close(found, (x.grad, gain.grad), rtol=1e-5, atol=1e-5)


def test_rms_norm_sums_the_gradient_of_a_gain_per_head():
    x, gain = torch.randn(9, 3, 8), torch.randn(3, 8, requires_grad=True)
    rms_norm(x, gain, 1e-6).square().sum().backward()
    found, gain.grad = gain.grad.clone(), None
    (x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() * gain).square().sum().backward()
    torch.testing.assert_close(found, gain.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("company", [0, 1, 5, 1030])
def test_cosines_of_a_position_do_not_depend_on_the_others(company):
    positions = torch.tensor([3, 17, 900, 1500])
    alone = Rotary(_RotaryEmbedding(), torch.float32)(positions)
    together = Rotary(_RotaryEmbedding(), torch.float32)(torch.cat([torch.arange(company), positions]))
    assert torch.equal(alone, together[company:])


class _RotaryEmbedding(nn.Module):
    attention_scaling = 1.25

    def __init__(self) -> None:
        super().__init__()
        self.inv_freq = nn.Buffer(1e4 ** -(torch.arange(0, 10, 2) / 10))
