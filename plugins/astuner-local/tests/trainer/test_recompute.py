"""Layers that are computed again in the backward pass, and what a pass shares between its layers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from astuner_local.forward.choose import make_forward
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.pass_size import PassLimit
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer


def adapt(model: nn.Module) -> nn.Module:
    from peft import LoraConfig, get_peft_model

    return get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, task_type="CAUSAL_LM"))  # type: ignore[arg-type]  # peft takes any module


@pytest.mark.parametrize("adapters", [False, True])
def test_the_update_has_the_same_bits(
    make_model: Callable[..., Any], make_groups: Callable[..., list[TrainRow]], adapters: bool
) -> None:
    found = []
    for recompute in (False, True):
        model = make_model()
        torch.manual_seed(1)
        model = adapt(model) if adapters else model
        trainer = Trainer(model, TrainerOptions(lr=0.01, recompute_activations=recompute))
        metrics = [trainer.update(make_groups(), step) for step in (1, 2)]
        found.append((metrics, {name: value.detach().clone() for name, value in trainer.parameters.items()}))
    (kept_metrics, kept), (metrics, again) = found
    assert metrics == kept_metrics
    assert [name for name, value in kept.items() if not torch.equal(value, again[name])] == []


@pytest.mark.parametrize("adapters", [False, True])
def test_only_the_input_of_each_layer_is_kept(make_model: Callable[..., Any], adapters: bool) -> None:
    model = adapt(make_model()) if adapters else make_model()
    forward = make_forward(model, trainable=True)
    ids = torch.arange(40) % 50

    def attend(layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return q * k.repeat_interleave(2, 1) * v.repeat_interleave(2, 1)

    def count(recompute: bool) -> int:
        kept: list[int] = []

        def pack(tensor: torch.Tensor) -> torch.Tensor:
            kept.append(tensor.shape[0] if tensor.dim() and tensor.shape[0] in (1, 40) else 0)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            forward.hidden(ids, ids, attend, recompute=recompute)
        return sum(size > 0 for size in kept)

    assert count(recompute=True) < count(recompute=False) / 2


def test_the_module_is_as_it_was_after_a_pass(make_model: Callable[..., Any]) -> None:
    model: Any = adapt(make_model())
    forward = make_forward(model, trainable=True)
    ids = torch.arange(5)
    forward.hidden(ids, ids, lambda layer, q, k, v: q, recompute=True)
    assert [name for name, module in model.named_modules() if "forward" in vars(module)] == []


@pytest.mark.parametrize(("wanted", "expected"), [(None, [False, True]), (True, [True, True]), (False, [False, False])])
def test_by_default_only_a_row_that_does_not_fit_is_computed_again(
    make_model: Callable[..., Any],
    make_row: Callable[..., TrainRow],
    monkeypatch: pytest.MonkeyPatch,
    wanted: bool | None,
    expected: Sequence[bool],
) -> None:
    monkeypatch.setattr(
        "astuner_local.trainer.trainer.measure_limit", lambda config, device: PassLimit(tokens=20, mask_entries=99)
    )
    trainer = Trainer(make_model(), TrainerOptions(recompute_activations=wanted))
    rows = [make_row(range(3, 4 + length), [length], group=str(length)) for length in (20, 21)]
    assert [batch.recompute for batch in trainer._lay_out(rows, [1.0, 1.0])] == expected


def test_all_layers_of_a_pass_are_given_one_mask_of_numbers(
    make_model: Callable[..., Any], make_groups: Callable[..., list[TrainRow]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[torch.Tensor] = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def watch(*args: Any, attn_mask: torch.Tensor | None = None, **kwargs: Any) -> torch.Tensor:
        if attn_mask is not None:
            seen.append(attn_mask)
        return attention(*args, attn_mask=attn_mask, **kwargs)

    trainer = Trainer(make_model(), TrainerOptions(micro_batch_tokens=sys.maxsize))
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watch)
    trainer.update(make_groups(), 1)
    assert (len(seen), len({id(mask) for mask in seen}), seen[0].dtype) == (2, 1, torch.float32)
