from __future__ import annotations

import pytest
import torch

from astuner_local.trainer.logprobs import compute_logprobs, count_rows_at_once, find_kept, score_tokens
from astuner_local.trainer.options import TrainerOptions


@pytest.fixture
def logits():
    return torch.randn(7, 19, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def targets():
    return torch.arange(7)


def test_temperature_divides_the_logits_before_the_softmax(logits, targets):
    found = compute_logprobs(logits.clone(), targets, TrainerOptions(temperature=0.7))
    expected = torch.log_softmax(logits / 0.7, -1)[range(7), targets]
    torch.testing.assert_close(found, expected)


def test_entropy_is_that_of_the_sampled_distribution(logits, targets):
    entropy = score_tokens(logits.clone(), targets, TrainerOptions(temperature=0.7)).entropy
    torch.testing.assert_close(entropy, torch.distributions.Categorical(logits=logits / 0.7).entropy())


@pytest.mark.parametrize("options", [{}, {"temperature": 0.7}, {"top_k": 5}, {"top_p": 0.6, "temperature": 1.3}], ids=str)
def test_gradient_is_that_of_plain_autograd(options, logits, targets):
    settings = TrainerOptions(**options)
    weights = torch.linspace(-1, 1, 7)
    scores = score_tokens(logits.clone(), targets, settings)
    assert torch.equal(scores.logprobs, compute_logprobs(logits.clone(), targets, settings))
    found = scores.pull(weights)
    logits.requires_grad_()
    scaled = logits / settings.temperature
    stays = find_kept(scaled.detach(), settings).scatter(1, targets[:, None], True)
    plain = scaled.masked_fill(~stays, -torch.inf).log_softmax(-1)[range(7), targets]
    (expected,) = torch.autograd.grad(plain.dot(weights), logits)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(scores.logprobs, plain.detach())


def test_top_k_renormalises_over_the_k_likeliest():
    found = compute_logprobs(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([1]), TrainerOptions(top_k=2))
    torch.testing.assert_close(found, torch.tensor([3.0, 2.0]).log_softmax(0)[1:])


def test_top_p_keeps_the_token_that_crosses_it():
    probabilities = torch.tensor([[0.5, 0.3, 0.15, 0.05]])
    assert find_kept(probabilities.log(), TrainerOptions(top_p=0.79)).tolist() == [[True, True, False, False]]
    assert find_kept(probabilities.log(), TrainerOptions(top_p=0.81)).tolist() == [[True, True, True, False]]


def test_top_p_is_taken_of_what_top_k_leaves():
    probabilities = torch.tensor([[0.4, 0.3, 0.2, 0.1]])
    # Of 0.4 and 0.3 the first alone is 0.57 of the mass.
    assert find_kept(probabilities.log(), TrainerOptions(top_k=2, top_p=0.55)).tolist() == [[True, False, False, False]]


def test_of_equally_likely_tokens_the_first_is_kept():
    assert find_kept(torch.zeros(1, 4), TrainerOptions(top_k=2)).tolist() == [[True, True, False, False]]
    assert find_kept(torch.zeros(1, 4), TrainerOptions(top_p=0.2)).tolist() == [[True, False, False, False]]


def test_a_sampled_token_outside_of_the_kept_set_is_put_back():
    found = score_tokens(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([2]), TrainerOptions(top_k=1))
    torch.testing.assert_close(found.logprobs, torch.tensor([3.0, 1.0]).log_softmax(0)[1:])
    assert found.entropy.isfinite().all()


def test_logits_of_half_the_vocabulary_left_out_give_a_finite_entropy(logits, targets):
    assert score_tokens(logits, targets, TrainerOptions(top_p=0.3)).entropy.isfinite().all()


@pytest.mark.parametrize(("rows", "at_once"), [(0, 1), (1, 1), (100, 100), (101, 51), (174, 87), (201, 67)])
def test_logits_are_computed_in_pieces_of_about_one_size(rows, at_once):
    options = TrainerOptions(logits_per_pass=1000)
    assert count_rows_at_once(options, rows, 10, torch.device("cpu")) == at_once
