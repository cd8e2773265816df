"""AdamW whose parameters or moments are kept in bfloat16."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

PIECE = 1 << 22
"""Numbers that are computed in float32 at once."""
EPS = 1e-8
_CUT = 16
"""Bits by which float32 is longer than bfloat16."""


class RoundedAdamW(Optimizer):
    """Computes each update in float32, and rounds what is kept in bfloat16 up or down at random, by how near each is.

    Rounding to the nearest would lose every update that is smaller than a 256th of its weight, and stop the second moment, whose
    changes are a thousandth of it. The draws depend on the step and the parameter alone, so a continued run makes the same ones.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        betas: tuple[float, float],
        weight_decay: float,
        moments: torch.dtype,
    ) -> None:
        """Take parameters of any precision; `moments` is the precision of their two moments."""
        super().__init__(parameters, {"lr": lr, "betas": betas, "weight_decay": weight_decay})
        self._moments = moments

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]  # no closure is taken
        """Update every parameter that has a gradient."""
        for group in self.param_groups:
            for number, parameter in enumerate(group["params"]):
                if parameter.grad is not None:
                    self._update(group, parameter, number)

    def _update(self, group: Mapping[str, Any], parameter: nn.Parameter, number: int) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state |= {name: torch.zeros_like(parameter, dtype=self._moments) for name in ("exp_avg", "exp_avg_sq")}
        state["step"] += 1
        step, (beta1, beta2), lr = int(state["step"]), group["betas"], group["lr"]
        draws = torch.Generator(parameter.device).manual_seed((step << 20) + number)
        assert parameter.grad is not None
        flat = (parameter.view(-1), state["exp_avg"].view(-1), state["exp_avg_sq"].view(-1), parameter.grad.reshape(-1))
        for start in range(0, parameter.numel(), PIECE):
            weight, first, second, grad = (tensor[start : start + PIECE] for tensor in flat)
            g = grad.float()
            m = first.float().lerp(g, 1 - beta1)
            v = (second.float() * beta2).addcmul_(g, g, value=1 - beta2)
            w = weight.float() * (1 - lr * group["weight_decay"])
            w.addcdiv_(m, (v / (1 - beta2**step)).sqrt_().add_(EPS), value=-lr / (1 - beta1**step))
            for target, value in ((weight, w), (first, m), (second, v)):
                target.copy_(value if target.dtype == torch.float32 else round_at_random(value, draws))

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take saved moments as they are: torch would give them the precision of the parameters."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        found = {
            parameters[place]: {name: value.to(parameters[place].device) for name, value in values.items()}
            for place, values in state_dict["state"].items()
        }
        self.state = defaultdict(dict, found)


def round_at_random(value: Tensor, draws: torch.Generator) -> Tensor:
    """Return float32 numbers in bfloat16; each becomes one of its two neighbours, the nearer one more often."""
    bits = value.contiguous().view(torch.int32)
    noise = torch.randint(1 << _CUT, bits.shape, dtype=torch.int32, device=value.device, generator=draws)
    return (bits + noise).bitwise_and_(-(1 << _CUT)).view(torch.float32).to(torch.bfloat16)
