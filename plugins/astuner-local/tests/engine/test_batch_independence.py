"""The same request gives the same ids and the same bits, whatever else the engine does, has done, or keeps."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astuner.contract.schema import Request, Sampling
from astuner_local.engine.batch import BatchEngine
from astuner_local.engine.reproducible import is_reproducible
from astuner_local.forward.choose import make_forward

SHAPES = [
    ("qwen2", 64, 4, 1),
    ("qwen2", 96, 4, 4),
    ("qwen3", 128, 8, 2),
    ("llama", 256, 8, 8),
    ("gpt_neox", 64, 4, 4),
    ("llama", 16, 4, 4),
    ("llama", 16, 8, 8),
]
LENGTHS = (1, 2, 3, 5, 9, 17, 40, 90, 126, 300)


def _requests(draw: random.Random, count: int) -> list[Request]:
    """Ragged requests, every third with the prompt of another one."""
    requests: list[Request] = []
    for number in range(count):
        ids = [draw.randrange(2, 97) for _ in range(draw.choice(LENGTHS))]
        if number % 3 == 2:
            ids = list(draw.choice(requests).prompt_ids) + ids[: draw.randrange(4)]
        sampling = Sampling(
            max_tokens=draw.choice([1, 3, 20, 45]),
            seed=number,
            temperature=draw.choice([0.0, 0.7, 1.0]),
            top_p=draw.choice([0.9, 1.0]),
            top_k=draw.choice([-1, 20]),
        )
        requests.append(Request(id=str(number), session=str(number), prompt_ids=ids, sampling=sampling))
    return requests


def _play(engine: BatchEngine, arrivals: list[list[Request]]) -> dict[str, tuple[list[int], list[float]]]:
    """Submit what arrives before each step."""
    generations = []
    while arrivals or engine.busy:
        if arrivals:
            generations += [engine.submit(request) for request in arrivals.pop(0)]
        engine.step()
    return {generation.request.id: (generation.ids, generation.logprobs) for generation in generations}


@pytest.mark.parametrize(
    ("family", "width", "heads", "kv_heads", "threads"),
    [(*shape, 1) for shape in SHAPES] + [(*shape, 2) for shape in SHAPES[1:3]],
)
def test_company_changes_no_bit(family, width, heads, kv_heads, threads, make_model, kernels):
    torch.set_num_threads(threads)
    forward = make_forward(make_model(family, width=width, heads=heads, kv_heads=kv_heads), trainable=False, kernels=kernels)
    draw = random.Random(width + heads)
    requests = _requests(draw, 12)
    alone = {}
    for request in requests:
        alone |= _play(BatchEngine(forward, max_model_len=512, kernels=kernels), [[request]])
    assert alone == _play(BatchEngine(forward, max_model_len=512, kernels=kernels), [requests])
    shuffled = draw.sample(requests, len(requests))
    engine = BatchEngine(forward, max_model_len=512, kernels=kernels, max_num_seqs=5, prefill_tokens=37)
    assert alone == _play(engine, [shuffled[at : at + 2] for at in range(0, len(shuffled), 2)])


@given(seed=st.integers(0, 10**6), limit=st.integers(1, 20), budget=st.integers(16, 400))
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_schedule_gives_the_same_bits(seed, limit, budget, model, kernels):
    forward = make_forward(model, trainable=False, kernels=kernels)
    draw = random.Random(seed)
    requests = _requests(draw, 10)
    expected = _play(BatchEngine(forward, max_model_len=512, kernels=kernels), [requests])
    order = draw.sample(requests, len(requests))
    arrivals = []
    while order:
        size = draw.randint(0, 3)
        arrivals.append(order[:size])
        order = order[size:]
    assert expected == _play(
        BatchEngine(forward, max_model_len=512, kernels=kernels, max_num_seqs=limit, prefill_tokens=budget), arrivals
    )


def test_a_continued_session_has_the_bits_of_a_fresh_one(engine, model, kernels, run, make_request, make_ids):
    prompt = make_ids(200)
    for turn in range(4):
        (kept,) = run(engine, make_request(f"{turn}", prompt, session="s", max_tokens=30, seed=turn))
        fresh_engine = BatchEngine(make_forward(model, trainable=False, kernels=kernels), max_model_len=512, kernels=kernels)
        (fresh,) = run(fresh_engine, make_request(f"{turn}", prompt, max_tokens=30, seed=turn))
        assert (kept.ids, kept.logprobs) == (fresh.ids, fresh.logprobs)
        prompt = prompt + kept.ids + make_ids(11, turn + 1)


def test_losing_the_cache_midway_changes_no_bit(engine, run, make_request, make_ids):
    request = make_request("a", make_ids(140), max_tokens=20)
    (undisturbed,) = run(engine, request)
    again = engine.submit(make_request("b", make_ids(140), max_tokens=20))
    for _ in range(7):
        engine.step()
    engine.refresh()
    while engine.busy:
        engine.step()
    assert (again.ids, again.logprobs) == (undisturbed.ids, undisturbed.logprobs)


def test_a_cache_too_small_for_all_changes_no_bit(model, kernels, run, make_request, make_ids):
    forward = make_forward(model, trainable=False, kernels=kernels)
    requests = [make_request(str(number), make_ids(230, number), max_tokens=40, seed=number) for number in range(40)]
    roomy, tight = (
        BatchEngine(forward, max_model_len=512, kernels=kernels),
        BatchEngine(forward, max_model_len=512, kernels=kernels, kv_tokens=1),
    )
    expected, found = run(roomy, *requests), run(tight, *requests)
    assert tight.stats.prefilled > roomy.stats.prefilled
    assert [(g.ids, g.logprobs) for g in found] == [(g.ids, g.logprobs) for g in expected]


def test_the_trial_at_the_start_agrees(model, kernels):
    assert is_reproducible(make_forward(model, trainable=False, kernels=kernels), kernels)


def test_the_trial_at_the_start_notices_company(model, kernels):
    forward = make_forward(model, trainable=False, kernels=kernels)
    usual = forward.logits
    forward.logits = lambda hidden: usual(hidden + 1e-6 * hidden.mean())
    assert not is_reproducible(forward, kernels)
