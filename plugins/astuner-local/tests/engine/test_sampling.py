from __future__ import annotations

import numpy as np
import pytest
import torch

from astuner.contract.schema import Sampling
from astuner_local.engine.sampler import Sampler
from astuner_local.engine.uniforms import draw_uniforms

CPU = torch.device("cpu")
LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0, -5.0]])


def _draw(logits, samplings, indices=None):
    return Sampler(samplings, CPU).draw(logits, indices or [0] * len(samplings))


def test_uniforms_are_a_function_of_seed_and_index():
    alone = draw_uniforms([7], [3])
    assert alone[0] == draw_uniforms([1, 7, 2**64 - 1], [0, 3, 5])[1]


def test_uniforms_are_uniform_along_seeds_and_along_indices():
    for values in (draw_uniforms(range(20000), [0] * 20000), draw_uniforms([5] * 20000, range(20000))):
        counts = np.histogram(values, bins=20, range=(0, 1))[0]
        assert ((counts - 1000) ** 2 / 1000).sum() < 50  # chi-square of 19 degrees of freedom: 1 in 10,000
        assert abs(np.corrcoef(values[1:], values[:-1])[0, 1]) < 0.03


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, LOGITS.softmax(-1)[0]),
        ({"temperature": 0.5}, (LOGITS * 2).softmax(-1)[0]),
        ({"top_k": 2}, torch.tensor([0.7311, 0.2689, 0, 0, 0])),
        ({"top_p": 0.8}, torch.tensor([0.7311, 0.2689, 0, 0, 0])),
        ({"top_p": 1e-6}, torch.tensor([1.0, 0, 0, 0, 0])),
        ({"top_k": 3, "top_p": 0.67, "temperature": 2.0}, torch.tensor([0.6225, 0.3775, 0, 0, 0])),
    ],
)
def test_samples_and_logprobs_follow_the_distribution(settings, expected):
    rows = 8000
    drawn = _draw(LOGITS.expand(rows, -1), [Sampling(seed=seed, **settings) for seed in range(rows)])
    shares = np.bincount(drawn.ids, minlength=5) / rows
    assert shares == pytest.approx(expected.numpy(), abs=0.02)
    assert np.exp(drawn.logprobs) == pytest.approx(expected[list(drawn.ids)].numpy(), abs=1e-3)


def test_temperature_zero_takes_the_most_likely_with_its_logprob_at_temperature_one():
    drawn = _draw(LOGITS, [Sampling(temperature=0, top_k=1)])
    assert drawn.ids == [0]
    assert drawn.logprobs == pytest.approx([LOGITS.log_softmax(-1)[0, 0].item()])


def test_rows_are_sampled_by_their_own_parameters():
    samplings = [Sampling(temperature=0), Sampling(top_k=1), Sampling(temperature=3.0, seed=9), Sampling(top_p=0.5, seed=1)]
    logits = torch.randn(4, 50, generator=torch.Generator().manual_seed(0))
    together = _draw(logits, samplings)
    alone = [_draw(logits[row : row + 1], [sampling]) for row, sampling in enumerate(samplings)]
    assert together.ids == [drawn.ids[0] for drawn in alone]
    assert together.logprobs == [drawn.logprobs[0] for drawn in alone]


def test_top_logprobs_come_for_the_rows_that_asked():
    drawn = _draw(LOGITS.expand(2, -1), [Sampling(), Sampling(top_logprobs=2)])
    expected = LOGITS.log_softmax(-1)[0]
    assert drawn.tops == {1: pytest.approx({0: expected[0].item(), 1: expected[1].item()})}


def test_an_impossible_token_is_never_drawn():
    logits = torch.full((4000, 6), -torch.inf)
    logits[:, 2], logits[:, 4] = 0.0, 0.0
    assert set(_draw(logits, [Sampling(seed=seed) for seed in range(4000)]).ids) == {2, 4}
