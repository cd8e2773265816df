from __future__ import annotations

import math

import pytest
import torch

from astuner.runs.training.losses import divergence, policy_loss, token_terms
from astuner_local.trainer.options import TrainerOptions


def _loss(ratio: float, advantage: float, *, weight: float = 1.0, **options) -> tuple[float, float]:
    """Return the loss of one token and its derivative by log π."""
    old = torch.tensor([-1.0])
    logp = (old + math.log(ratio)).requires_grad_()
    loss, _ = policy_loss(logp, old, old - math.log(weight), torch.tensor([advantage]), TrainerOptions(**options))
    loss.sum().backward()
    return loss.item(), logp.grad.item()


def test_at_ratio_one_the_gradient_is_minus_the_advantage():
    assert _loss(1.0, 0.7) == pytest.approx((-0.7, -0.7))


def test_a_raised_probability_of_a_good_token_counts_up_to_the_upper_clip():
    assert _loss(1.1, 1.0, clip_ratio_high=0.28) == pytest.approx((-1.1, -1.1))
    assert _loss(1.5, 1.0, clip_ratio_high=0.28) == pytest.approx((-1.28, 0.0))


def test_a_lowered_probability_of_a_bad_token_counts_down_to_the_lower_clip():
    assert _loss(0.9, -1.0, clip_ratio_low=0.2) == pytest.approx((0.9, 0.9))
    assert _loss(0.5, -1.0, clip_ratio_low=0.2) == pytest.approx((0.8, 0.0))


def test_a_step_in_the_wrong_direction_is_clipped_only_far_out():
    assert _loss(0.5, 1.0) == pytest.approx((-0.5, -0.5))
    assert _loss(1.5, -1.0) == pytest.approx((1.5, 1.5))
    assert _loss(148.0, -1.0) == pytest.approx((3.0, 0.0))
    assert _loss(148.0, -1.0, clip_ratio_c=10.0) == pytest.approx((10.0, 0.0))


@pytest.mark.parametrize("log_ratio", [95.0, -95.0])
def test_a_ratio_past_all_bounds_is_finite_and_has_no_gradient(log_ratio):
    logp = torch.tensor([log_ratio]).requires_grad_()
    loss, ratio = policy_loss(logp, torch.zeros(1), torch.zeros(1), torch.tensor([0.0]), TrainerOptions())
    loss.sum().backward()
    assert (loss.item(), logp.grad.item()) == (0, 0)
    assert ratio.log().item() == pytest.approx(math.copysign(20.0, log_ratio))


def test_importance_weight_multiplies_up_to_its_bound():
    assert _loss(1.0, 1.0, weight=1.5, rollout_is_threshold=2.0) == pytest.approx((-1.5, -1.5))
    assert _loss(1.0, 1.0, weight=3.0, rollout_is_threshold=2.0) == pytest.approx((-2.0, -2.0))
    assert _loss(1.0, 1.0, weight=0.2, rollout_is_threshold=2.0) == pytest.approx((-0.2, -0.2))


def test_without_a_bound_there_is_no_importance_weight():
    assert _loss(1.0, 1.0, weight=3.0) == pytest.approx((-1.0, -1.0))


@pytest.mark.parametrize(
    ("kind", "expected"), [("kl", -0.5), ("abs", 0.5), ("mse", 0.125), ("low_var_kl", math.exp(0.5) - 1 - 0.5)]
)
def test_estimators_are_those_that_verl_means_by_their_names(kind, expected):
    found = divergence(torch.tensor([-2.0]), torch.tensor([-1.5]), kind)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_k1_and_k3_average_to_the_divergence_and_k2_has_its_gradient():
    """Over the whole of a distribution, weighted by it: the expectations that the estimators stand for."""
    generator = torch.Generator().manual_seed(0)
    logits = (torch.randn(50, generator=generator, dtype=torch.float64) / 2).requires_grad_()
    logp, reference = logits.log_softmax(0), (torch.randn(50, generator=generator, dtype=torch.float64) / 2).log_softmax(0)
    p = logp.exp()
    exact = (p * (logp - reference)).sum()
    (slope,) = torch.autograd.grad(exact, logits, retain_graph=True)
    for kind in ("kl", "low_var_kl"):
        torch.testing.assert_close((p * divergence(logp, reference, kind)).sum(), exact)
    (of_k1,) = torch.autograd.grad((p.detach() * divergence(logp, reference, "kl")).sum(), logits, retain_graph=True)
    (of_k2,) = torch.autograd.grad((p.detach() * divergence(logp, reference, "mse")).sum(), logits)
    torch.testing.assert_close(of_k1, torch.zeros_like(of_k1))
    torch.testing.assert_close(of_k2, slope)


@pytest.mark.parametrize("logp", [-12.0, -22.0, -300.0])
def test_k3_of_a_token_that_the_reference_finds_likely_and_the_policy_impossible_decides_no_step(logp):
    policy = torch.tensor([logp]).requires_grad_()
    found = divergence(policy, torch.tensor([0.0]), "low_var_kl")
    found.sum().backward()
    assert (found.item(), policy.grad.item()) == (10, 0)


def test_the_terms_of_tokens_are_their_losses_and_what_is_measured_of_them():
    logp, old, sampler = torch.tensor([-1.0, -2.0]), torch.tensor([-2.0, -1.0]), torch.tensor([-2.5, -1.0])
    advantages, shares, reference = torch.tensor([1.0, -1.0]), torch.tensor([0.5, 0.25]), torch.tensor([-1.5, -2.0])
    options = TrainerOptions(kl_loss_coef=0.1, kl_loss_type="kl")
    given = {"old": old, "sampler": sampler, "advantages": advantages, "shares": shares, "options": options}
    policy, _ = policy_loss(logp, old, sampler, advantages, options)

    terms = token_terms(logp, **given, reference=reference)
    assert terms.loss.tolist() == (policy + 0.1 * (logp - reference)).tolist()
    assert terms.measured["loss/policy"].tolist() == (policy * shares).tolist()
    assert terms.measured["loss/kl"].tolist() == pytest.approx([0.025, 0.0])
    assert terms.measured["kl"].tolist() == divergence(logp, reference, "low_var_kl").tolist()
    assert terms.measured["clip/high"].tolist() == [True, False]
    assert terms.measured["clip/low"].tolist() == [False, True]
    assert terms.measured["clip/dual"].tolist() == [False, False]
    assert terms.drift.tolist() == [0.5, 0.0]

    terms = token_terms(logp, **given, trainer=logp)
    assert terms.loss.tolist() == policy.tolist()
    assert terms.measured["kl"].tolist() == [0.0, 0.0]
    assert terms.drift.tolist() == [1.5, -1.0]
