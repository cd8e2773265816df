"""What users' code does to torch changes nothing of what is sampled and learned."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from astuner.contract.schema import Request, Sample, Sampling
from astuner_local.engine.serving import Serving
from astuner_local.engine.torch_settings import TorchSettings
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.rows import TrainRow
from astuner_local.trainer.trainer import Trainer

CHANGES: Mapping[str, Callable[[], Any]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "threads": lambda: torch.set_num_threads(3),
    "gradients": lambda: torch.set_grad_enabled(False),
    "precision": lambda: torch.set_float32_matmul_precision("medium"),
    "determinism": lambda: torch.use_deterministic_algorithms(mode=True, warn_only=False),
    "denormals": lambda: torch.set_flush_denormal(True),
    "attention": lambda: torch.backends.cuda.enable_math_sdp(enabled=False),
    "seed": lambda: torch.manual_seed(5),
}
CONTEXTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "inference mode": torch.inference_mode,
    "no_grad": torch.no_grad,
}
ALL = [*CHANGES, *CONTEXTS]


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before, threads = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_default_dtype(torch.float32)
    torch.set_default_device(None)
    torch.set_num_threads(threads)
    torch.set_grad_enabled(True)
    torch.set_float32_matmul_precision("highest")
    torch.use_deterministic_algorithms(before, warn_only=True)
    torch.set_flush_denormal(False)
    torch.backends.cuda.enable_math_sdp(enabled=True)


def change(what: str) -> AbstractContextManager[Any]:
    """Do what an agent does; leaving the returned context undoes what only a context can do."""
    if what in CONTEXTS:
        return CONTEXTS[what]()
    CHANGES[what]()
    return nullcontext()


def make_model() -> Any:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=61,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=None,
    )
    return Qwen2ForCausalLM(config)


def make_rows() -> list[TrainRow]:
    draw = np.random.default_rng(0)
    rows = []
    for number in range(6):
        ids = draw.integers(0, 61, 20 + number).astype(np.int32)
        mask = np.arange(len(ids)) >= 9
        sample = Sample(
            episode_id=str(number),
            task_id="t",
            repeat=number,
            agent="agent",
            ids=ids,
            mask=mask,
            logprobs=np.where(mask, -4.0, 0).astype(np.float32),
            calls=(0,),
        )
        rows.append(TrainRow(sample=sample, advantage=float(draw.normal()), group="t"))
    return rows


def train(what: str | None) -> tuple[Any, ...]:
    """Return the metrics and the weights of a step in which an agent did something."""
    model = make_model()
    trainer = Trainer(model, TrainerOptions(lr=1e-2, mini_batch_num=2))
    settings = TorchSettings.read()
    with change(what) if what else nullcontext(), settings.hold():
        metrics = trainer.update(make_rows(), 1)
    return sorted(metrics.items()), [p.detach().numpy().tobytes() for p in model.parameters()]


async def sample(what: str | None) -> list[tuple[Any, ...]]:
    """Return the tokens and log-probabilities of two requests between which an agent did something."""
    serving = Serving(make_model(), dtype=torch.float32, max_model_len=256, max_num_seqs=4)
    serving.start()
    found: list[tuple[Any, ...]] = []
    try:
        for number in range(2):
            sampling = Sampling(max_tokens=8, seed=number, temperature=0.7, top_p=0.9)
            request = Request(id=str(number), session="s", prompt_ids=list(range(2, 30)), sampling=sampling)
            async for chunk in serving.generate(request):
                found += zip(chunk.ids, chunk.logprobs, strict=True)
            if what is not None:
                CHANGES[what]()
    finally:
        await serving.close()
    return found


@pytest.mark.parametrize("what", ALL)
def test_an_update_learns_the_same_whatever_an_agent_has_changed(what: str) -> None:
    expected = train(None)
    assert train(what) == expected


@pytest.mark.asyncio
@pytest.mark.parametrize("what", CHANGES)
async def test_the_engine_samples_the_same_whatever_an_agent_has_changed(what: str) -> None:
    expected = await sample(None)
    assert await sample(what) == expected


@pytest.mark.parametrize("what", CHANGES)
def test_what_users_code_has_set_holds_for_users_code(what: str) -> None:
    settings = TorchSettings.read()
    change(what)
    changed = TorchSettings.read()
    with settings.hold():
        assert TorchSettings.read() == settings
    assert TorchSettings.read() == changed
