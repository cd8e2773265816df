from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

from astuner.contract.schema import Sample
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

VOCAB = 61
Gradient = dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def _model(family: str = "qwen2", *, kv_heads: int = 2, tied: bool = True, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    classes: dict[str, type] = {"qwen2": Qwen2Config, "qwen3": Qwen3Config, "llama": LlamaConfig}
    config = classes[family](
        vocab_size=VOCAB,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=kv_heads,
        head_dim=8,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=None,  # transformers gives the pad id no gradient, even where it stands in the text
    )
    return AutoModelForCausalLM.from_config(config)


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """Makes a small causal language model with random weights."""
    return _model


def _row(
    ids: Sequence[int],
    trained: Sequence[int],
    *,
    advantage: float = 1.0,
    group: str = "g",
    episode: str = "e",
    agent: str = "agent",
    logprobs: Sequence[float] | None = None,
) -> TrainRow:
    mask = np.zeros(len(ids), np.bool_)
    mask[list(trained)] = True
    sampler = np.zeros(len(ids), np.float32)
    sampler[mask] = -np.log(VOCAB) if logprobs is None else logprobs
    sample = Sample(
        episode_id=episode,
        task_id=group,
        repeat=0,
        agent=agent,
        ids=np.array(ids, np.int32),
        mask=mask,
        logprobs=sampler,
        calls=(0,),
    )
    return TrainRow(sample=sample, advantage=advantage, group=group)


@pytest.fixture
def make_row() -> Callable[..., TrainRow]:
    """Makes a row of ids, of which those at the positions `trained` are."""
    return _row


def _groups(groups: int = 3, repeats: int = 4, *, seed: int = 0, prompt: int = 9) -> list[TrainRow]:
    draw = np.random.default_rng(seed)
    rows = []
    for group in range(groups):
        shared = draw.integers(0, VOCAB, prompt + group).tolist()
        for repeat in range(repeats):
            answer = draw.integers(0, VOCAB, int(draw.integers(1, 14))).tolist()
            logprobs = -np.log(VOCAB) + 0.3 * draw.standard_normal(len(answer))
            row = _row(
                shared + answer,
                trained=range(len(shared), len(shared) + len(answer)),
                advantage=float(draw.normal()),
                group=f"g{group}",
                episode=f"e{group}.{repeat}",
                logprobs=logprobs.tolist(),
            )
            rows.append(row)
    return rows


@pytest.fixture
def make_groups() -> Callable[..., list[TrainRow]]:
    """Makes groups of rows with a shared prompt and random answers of 1 to 13 tokens."""
    return _groups


def _captured(model: Any, rows: Sequence[TrainRow], *, reference: Any = None, **options: Any) -> list[Gradient]:
    found: list[Gradient] = []
    names = {p: name for name, p in model.named_parameters()}

    def capture(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        found.append({names[p]: p.grad.detach().clone().double() for p in parameters if p.grad is not None})

    hook = register_optimizer_step_pre_hook(capture)
    try:
        settings: dict[str, Any] = {"lr": 0.0, "grad_clip": None, **options}
        Trainer(model, TrainerOptions(**settings), reference=reference).update(rows, 1)
    finally:
        hook.remove()
    return found


@pytest.fixture
def gradients() -> Callable[..., list[Gradient]]:
    """Runs a real update at a learning rate of 0 and returns the gradient that each optimizer step was given."""
    return _captured


def _expected(model: Any, rows: Sequence[TrainRow], factors: Sequence[float], *, temperature: float = 1.0) -> Gradient:
    exact = _model_in_double(model)
    longest = max(len(row.sample.ids) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    seen = torch.zeros(len(rows), longest, dtype=torch.long)
    for number, row in enumerate(rows):
        ids[number, : len(row.sample.ids)] = torch.from_numpy(row.sample.ids.astype(np.int64))
        seen[number, : len(row.sample.ids)] = 1
    logp = (exact(input_ids=ids, attention_mask=seen).logits / temperature).log_softmax(-1)
    loss = torch.zeros((), dtype=torch.float64)
    for number, (row, factor) in enumerate(zip(rows, factors, strict=True)):
        for at in np.flatnonzero(row.sample.mask):
            loss = loss - factor * row.advantage * logp[number, at - 1, int(row.sample.ids[at])]
    loss.backward()
    return {name: p.grad for name, p in exact.named_parameters() if p.grad is not None}


def _model_in_double(model: Any) -> Any:
    exact = type(model)(model.config).double()
    exact.load_state_dict(model.state_dict())
    return exact


@pytest.fixture
def expected_gradient() -> Callable[..., Gradient]:
    """The gradient of -sum(factor x advantage x log p) by transformers' own padded forward, in float64."""
    return _expected


def _difference(one: Gradient, other: Gradient) -> float:
    assert one.keys() == other.keys()
    scale = max(float(g.abs().max()) for g in other.values())
    return max(float((one[name] - other[name]).abs().max()) for name in one) / scale


@pytest.fixture
def difference() -> Callable[[Gradient, Gradient], float]:
    """The largest difference of two gradients relative to the largest entry."""
    return _difference
