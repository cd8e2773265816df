from __future__ import annotations

import pytest
import torch

from astuner_local.engine.batch import BatchEngine
from astuner_local.forward.choose import make_forward

FAMILIES = ["qwen2", "qwen3", "llama", "gpt_neox"]


def _logprobs(model, prompt, ids):
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([prompt + ids]), use_cache=False).logits[0]
    return logits.float().log_softmax(-1)[len(prompt) - 1 : -1]


@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_ids_and_logprobs_are_those_of_the_plain_forward(family, make_model, run, make_request, make_ids):
    model = make_model(family)
    engine = BatchEngine(make_forward(model, trainable=False), max_model_len=512)
    prompts = [make_ids(size, size) for size in (1, 6, 33, 150, 260)]
    for prompt, found in zip(
        prompts, run(engine, *(make_request(str(len(p)), p, temperature=0, max_tokens=20) for p in prompts)), strict=True
    ):
        expected = _logprobs(model, prompt, found.ids)
        assert found.ids == expected.argmax(-1).tolist()
        assert torch.tensor(found.logprobs) == pytest.approx(expected.amax(-1).numpy(), abs=1e-4)


@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_over_several_turns_are_those_of_the_plain_forward(family, make_model, run, make_request, make_ids):
    model = make_model(family)
    engine = BatchEngine(make_forward(model, trainable=False), max_model_len=512)
    prompt = make_ids(12)
    for turn in range(3):
        (found,) = run(engine, make_request(str(turn), prompt, session="s", seed=turn, max_tokens=9))
        expected = _logprobs(model, prompt, found.ids).gather(1, torch.tensor(found.ids)[:, None])[:, 0]
        assert torch.tensor(found.logprobs) == pytest.approx(expected.numpy(), abs=1e-4)
        prompt = prompt + found.ids + make_ids(7, turn + 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_bfloat16_stays_near_float32(family, make_model, run, make_request, make_ids):
    model = make_model(family)
    engine = BatchEngine(make_forward(model, trainable=False, dtype=torch.bfloat16), max_model_len=512)
    prompt = make_ids(40)
    (found,) = run(engine, make_request("a", prompt, max_tokens=20))
    expected = _logprobs(model, prompt, found.ids).gather(1, torch.tensor(found.ids)[:, None])[:, 0]
    assert torch.tensor(found.logprobs) == pytest.approx(expected.numpy(), abs=0.15)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("family", FAMILIES)
def test_logprobs_on_a_gpu_are_those_of_the_plain_forward(family, make_model, run, make_request, make_ids):
    model = make_model(family)
    engine = BatchEngine(make_forward(model.cuda(), trainable=False), max_model_len=512, device="cuda")
    prompts = [make_ids(size, size) for size in (1, 33, 150)]
    found = run(engine, *(make_request(str(len(prompt)), prompt, max_tokens=20) for prompt in prompts))
    model.cpu()
    for prompt, generation in zip(prompts, found, strict=True):
        expected = _logprobs(model, prompt, generation.ids).gather(1, torch.tensor(generation.ids)[:, None])[:, 0]
        assert torch.tensor(generation.logprobs) == pytest.approx(expected.numpy(), abs=1e-3)
