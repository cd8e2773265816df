from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, GPTNeoXConfig, LlamaConfig, Qwen2Config, Qwen3Config

from astuner.contract.schema import Request, Sampling
from astuner_local.compiled.kernels import Kernels, load_kernels
from astuner_local.engine.batch import BatchEngine
from astuner_local.engine.slots import Generation
from astuner_local.forward.choose import make_forward

VOCAB = 97
CONFIGS: dict[str, type] = {"qwen2": Qwen2Config, "qwen3": Qwen3Config, "llama": LlamaConfig, "gpt_neox": GPTNeoXConfig}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(1)


def _model(family: str = "qwen2", *, width: int = 64, heads: int = 4, kv_heads: int = 2, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = CONFIGS[family](
        vocab_size=VOCAB,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=2,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=1024,
        initializer_range=0.1,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=1,
        pad_token_id=None,
    )
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.fixture
def make_model() -> Callable[..., Any]:
    """Makes a small causal language model with random weights."""
    return _model


@pytest.fixture
def model() -> Any:
    """A small Qwen2 with grouped queries."""
    return _model()


@pytest.fixture(params=["compiled", "torch"])
def kernels(request: pytest.FixtureRequest) -> Kernels | None:
    """The kernels in C, then none."""
    if request.param == "torch":
        return None
    return load_kernels(torch.float32, "cpu") or pytest.skip("no C compiler")


@pytest.fixture
def engine(model: Any, kernels: Kernels | None) -> BatchEngine:
    """An engine over it."""
    return BatchEngine(make_forward(model, trainable=False, kernels=kernels), max_model_len=512, kernels=kernels)


def _ids(size: int, seed: int = 0) -> list[int]:
    return torch.randint(2, VOCAB, (size,), generator=torch.Generator().manual_seed(seed)).tolist()


@pytest.fixture
def make_ids() -> Callable[[int, int], list[int]]:
    """Draws random ids."""
    return _ids


@pytest.fixture
def make_request() -> Callable[..., Request]:
    """Makes a request; its session is its id unless given."""

    def make(name: str, prompt_ids: Sequence[int], session: str | None = None, **sampling: Any) -> Request:
        return Request(
            id=name, session=session or name, prompt_ids=prompt_ids, sampling=Sampling(**({"max_tokens": 8} | sampling))
        )

    return make


@pytest.fixture
def run() -> Callable[..., list[Generation]]:
    """Submits requests and steps until all are done."""

    def run(engine: BatchEngine, *requests: Request) -> list[Generation]:
        generations = [engine.submit(request) for request in requests]
        while engine.busy:
            engine.step()
        return generations

    return run
