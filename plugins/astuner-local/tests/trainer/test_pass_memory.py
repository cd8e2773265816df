"""The computed memory of an update against the peak of torch's allocator, on shapes in which each term counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from attrs import evolve, field, frozen
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from astuner.settings.memory_estimate.model_shape import ModelShape
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.pass_memory import PassOptions, measure_training
from astuner_local.trainer.pass_size import count_logits
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

CLASSES: dict[str, Any] = {"qwen2": Qwen2Config, "qwen3": Qwen3Config, "llama": LlamaConfig}
ROWS = 4
"""Of a pass; an update has two passes."""


@frozen(kw_only=True)
class Case:
    """A model and how it is trained; one thing differs from case to case."""

    family: str = "qwen2"
    layers: int = 6
    width: int = 96
    inner: int = 256
    heads: int = 4
    kv_heads: int = 2
    head_dim: int | None = None
    vocabulary: int = 500
    tied: bool = True
    length: int = 256
    prompt: int = 8
    rank: int = 0
    options: dict[str, Any] = field(factory=dict)

    def read_config(self) -> dict[str, Any]:
        """Return what the model's `config.json` says."""
        sizes = {
            "vocab_size": self.vocabulary,
            "hidden_size": self.width,
            "intermediate_size": self.inner,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "tie_word_embeddings": self.tied,
        }
        return sizes | ({"head_dim": self.head_dim} if self.head_dim else {})


CASES = {
    "reference": Case(),
    "deep": Case(layers=12),
    "wide": Case(width=160),
    "large MLP": Case(inner=512),
    "no grouped heads": Case(kv_heads=4),
    "normed heads": Case(family="qwen3", head_dim=32),
    "untied": Case(family="llama", tied=False),
    "large vocabulary": Case(vocabulary=4000, prompt=120),
    "few tokens": Case(layers=2, width=256, inner=704, vocabulary=8000, length=16),
    "bfloat16": Case(options={"dtype": "bfloat16"}),
    "all in bfloat16": Case(options={"dtype": "bfloat16", "weight_dtype": "bfloat16", "moment_dtype": "bfloat16"}),
    "adapters": Case(rank=8),
    "adapters in bfloat16": Case(rank=8, options={"dtype": "bfloat16"}),
    "recompute": Case(options={"recompute_activations": True}),
    "recompute with adapters": Case(rank=8, options={"recompute_activations": True}),
    "recompute in bfloat16": Case(rank=8, options={"recompute_activations": True, "dtype": "bfloat16"}),
    "nucleus": Case(options={"top_p": 0.9}),
    "logits in pieces": Case(vocabulary=4000, options={"logits_per_pass": 2**19}),
    "temperature": Case(options={"temperature": 0.7}),
}


def measure_peak(work: Callable[[], object]) -> int:
    """Return the most bytes that torch's allocator held at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        kept = work()
    assert kept is not None
    assert recorded.profiler is not None
    totals = list(_read_totals(recorded.profiler.kineto_results.experimental_event_tree()))
    (first, size), *_ = totals
    return max(total for total, _ in totals) - (first - size)


def _read_totals(events: Iterable[Any]) -> Iterable[tuple[int, int]]:
    for event in events:
        if event.tag == _EventType.Allocation:
            yield event.extra_fields.total_allocated, event.extra_fields.alloc_size
        yield from _read_totals(event.children)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_computed_peak_is_the_measured_one_within_fifteen_percent(case: Case, make_row: Callable[..., TrainRow]) -> None:
    options = TrainerOptions(micro_batch_tokens=ROWS * case.length, **case.options)
    rows = [
        evolve(make_row([3 + (7 * i + n) % 400 for i in range(case.length)], range(case.prompt, case.length)), group=f"g{n}")
        for n in range(2 * ROWS)
    ]

    def train() -> Trainer:
        torch.manual_seed(0)
        stored = torch.bfloat16 if options.weight_dtype == "bfloat16" else torch.float32
        model: Any = AutoModelForCausalLM.from_config(CLASSES[case.family](**case.read_config()), dtype=stored)
        if case.rank:
            from peft import LoraConfig, get_peft_model

            settings = LoraConfig(r=case.rank, target_modules="all-linear", task_type="CAUSAL_LM")
            model = get_peft_model(model.to(getattr(torch, options.dtype)), settings)
        trainer = Trainer(model, options)
        # The moments exist from the second update on.
        for step in (1, 2):
            trainer.update(rows, step)
        return trainer

    shape = ModelShape.from_config({"model_type": case.family, **case.read_config()})
    assert shape is not None
    computed = measure_training(
        shape,
        PassOptions(
            item=2 if options.dtype == "bfloat16" else 4,
            lora_rank=case.rank,
            logits_per_pass=count_logits(options.logits_per_pass, cuda=False),
            truncated=options.truncated,
            weight_item=2 if options.weight_dtype == "bfloat16" else 4,
            moment_item=2 if options.moment_dtype == "bfloat16" else 4,
        ),
        tokens=ROWS * case.length,
        trained=ROWS * (case.length - case.prompt),
        recompute=bool(options.recompute_activations),
    )
    assert computed.total == pytest.approx(measure_peak(train), rel=0.15)
