"""AdamW in chosen precision: its numbers, its rounding, and going on from a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rounded_adamw import RoundedAdamW, round_at_random
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

HALF = {"weight_dtype": "bfloat16", "moment_dtype": "bfloat16"}


def test_in_float32_it_is_the_adamw_of_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner_local.trainer.rounded_adamw.PIECE", 7)
    torch.manual_seed(0)
    start, gradients = torch.randn(5, 6), torch.randn(4, 5, 6)
    found = []
    for make in (
        lambda p: torch.optim.AdamW(p, lr=0.1, betas=(0.9, 0.99), weight_decay=0.1),
        lambda p: RoundedAdamW(p, lr=0.1, betas=(0.9, 0.99), weight_decay=0.1, moments=torch.float32),
    ):
        parameter = torch.nn.Parameter(start.clone())
        optimizer = make([parameter])
        for gradient in gradients:
            parameter.grad = gradient.clone()
            optimizer.step()
        found.append(parameter.detach())
    assert torch.allclose(found[0], found[1], rtol=1e-5, atol=1e-6)


def test_rounding_at_random_keeps_the_mean() -> None:
    value = torch.full((100_000,), 1.001)
    rounded = round_at_random(value, torch.Generator().manual_seed(0))
    assert set(rounded.unique().tolist()) == {1.0, 1.0078125}
    assert rounded.float().mean().item() == pytest.approx(1.001, abs=1e-4)


@pytest.mark.parametrize("value", [0.0, -0.0, 1.0, -2.5, 3.0e38, 1e-40])
def test_a_number_of_bfloat16_stays_what_it_is(value: float) -> None:
    exact = torch.full((1000,), value).bfloat16()
    assert torch.equal(round_at_random(exact.float(), torch.Generator().manual_seed(0)), exact)


def test_updates_smaller_than_half_a_unit_move_a_weight_of_bfloat16() -> None:
    parameter = torch.nn.Parameter(torch.ones(10_000, dtype=torch.bfloat16))
    optimizer = RoundedAdamW([parameter], lr=1e-5, betas=(0.9, 0.999), weight_decay=0.0, moments=torch.bfloat16)
    for _ in range(20):
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    assert parameter.float().mean().item() == pytest.approx(1 - 20e-5, abs=5e-5)


@pytest.mark.parametrize("options", [HALF, {"moment_dtype": "bfloat16"}, {"weight_dtype": "bfloat16"}], ids=str)
def test_a_continued_run_has_the_same_bits(
    make_model: Callable[..., Any], make_groups: Callable[..., list[TrainRow]], tmp_path: Path, options: dict[str, str]
) -> None:
    dtype = getattr(torch, options.get("weight_dtype", "float32"))

    def make() -> Trainer:
        return Trainer(make_model().to(dtype), TrainerOptions(lr=0.01, **options))  # type: ignore[arg-type]  # all are strings

    whole = make()
    for step in (1, 2):
        whole.update(make_groups(seed=step), step)
    whole.save(tmp_path)
    continued = make()
    continued.model.load_state_dict(whole.model.state_dict())
    continued.load(tmp_path)
    for trainer in (whole, continued):
        trainer.update(make_groups(seed=3), 3)
    assert all(torch.equal(value, continued.parameters[name]) for name, value in whole.parameters.items())
    moments = {state["exp_avg"].dtype for state in continued._optimizer.state.values()}
    assert moments == {getattr(torch, options.get("moment_dtype", "float32"))}


def test_weights_of_another_precision_are_refused(make_model: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="must be bfloat16"):
        Trainer(make_model(), TrainerOptions(weight_dtype="bfloat16"))
