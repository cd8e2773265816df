from __future__ import annotations

import math

import pytest
import torch

from astuner.contract.errors import PluginError
from astuner.contract.protocols import LossTraits, TrainedTokens
from astuner.runs.training import Correction, LossOptions, PpoClip, divergence, token_terms


def _tokens(logp, *, old=None, sampler=None, advantages=None, samples=None) -> TrainedTokens:
    logp = torch.as_tensor(logp, dtype=torch.float32)
    old = logp if old is None else torch.as_tensor(old, dtype=torch.float32)
    return TrainedTokens(
        logp=logp,
        old=old,
        sampler=old if sampler is None else torch.as_tensor(sampler, dtype=torch.float32),
        advantages=torch.ones(len(logp)) if advantages is None else torch.as_tensor(advantages, dtype=torch.float32),
        samples=torch.arange(len(logp)) if samples is None else torch.tensor(samples),
    )


def _terms(tokens, **options):
    return token_terms(tokens, shares=torch.ones(len(tokens.logp)), options=LossOptions(**options))


def _loss(ratio: float, advantage: float, *, weight: float = 1.0, threshold=None, **options) -> tuple[float, float]:
    """Return the loss of one token and its derivative by log π."""
    tokens = _tokens([math.log(ratio) - 1], old=[-1.0], sampler=[-1 - math.log(weight)], advantages=[advantage])
    terms = _terms(tokens, policy_loss=PpoClip(**options), correction=Correction(rollout_is_threshold=threshold))
    return terms.loss.item(), terms.slope.item()


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
    terms = _terms(_tokens([log_ratio], old=[0.0], advantages=[0.0]))
    assert (terms.loss.item(), terms.slope.item()) == (0, 0)
    assert terms.ratio.log().item() == pytest.approx(math.copysign(20.0, log_ratio))


def test_importance_weight_multiplies_up_to_its_bound():
    assert _loss(1.0, 1.0, weight=1.5, threshold=2.0) == pytest.approx((-1.5, -1.5))
    assert _loss(1.0, 1.0, weight=3.0, threshold=2.0) == pytest.approx((-2.0, -2.0))
    assert _loss(1.0, 1.0, weight=0.2, threshold=2.0) == pytest.approx((-0.2, -0.2))


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
    tokens = _tokens([-1.0, -2.0], old=[-2.0, -1.0], sampler=[-2.5, -1.0], advantages=[1.0, -1.0])
    shares, reference = torch.tensor([0.5, 0.25]), torch.tensor([-1.5, -2.0])
    options = LossOptions(kl_loss_coef=0.1, kl_loss_type="kl")

    terms = token_terms(tokens, shares=shares, options=options, reference=reference)
    assert terms.loss.tolist() == pytest.approx([-1.2 + 0.05, 0.8])
    assert terms.slope.tolist() == pytest.approx([0.5 * 0.1, 0.25 * 0.1])
    assert terms.measured["loss/policy"].tolist() == pytest.approx([-0.6, 0.2])
    assert terms.measured["loss/kl"].tolist() == pytest.approx([0.025, 0.0])
    assert terms.measured["kl"].tolist() == divergence(tokens.logp, reference, "low_var_kl").tolist()
    assert terms.measured["clip/high"].tolist() == [True, False]
    assert terms.measured["clip/low"].tolist() == [False, True]
    assert terms.measured["clip/dual"].tolist() == [False, False]
    assert terms.drift.tolist() == [0.5, 0.0]

    terms = token_terms(tokens, shares=shares, options=options, trainer=tokens.logp)
    assert terms.loss.tolist() == pytest.approx([-1.2, 0.8])
    assert terms.measured["kl"].tolist() == [0.0, 0.0]
    assert terms.drift.tolist() == [1.5, -1.0]


def test_the_sum_of_a_pass_has_the_value_and_the_gradient_of_its_terms():
    tokens, shares = _tokens([-1.0, -2.0], old=[-1.1, -2.3], advantages=[1.0, -1.0]), torch.tensor([0.5, 0.25])
    terms = token_terms(tokens, shares=shares, options=LossOptions())
    logp = tokens.logp.clone().requires_grad_()
    total = terms.add_up(logp, shares)
    total.backward()
    assert total.item() == pytest.approx(terms.measured["loss/policy"].sum().item())
    assert logp.grad.tolist() == terms.slope.tolist()


class Pulled:
    """A loss whose tokens pull each other: the mean of the sample, squared. Gradients cross from token to token."""

    def compute(self, tokens: TrainedTokens) -> torch.Tensor:
        return tokens.average(tokens.logp).square() * tokens.advantages


def test_a_gradient_crosses_from_token_to_token_of_a_sample_and_no_further():
    tokens = _tokens([1.0, 3.0, 5.0], advantages=[1.0, 0.0, 1.0], samples=[0, 0, 1])
    terms = _terms(tokens, policy_loss=Pulled())
    assert terms.loss.tolist() == [4.0, 0.0, 25.0]
    assert terms.slope.tolist() == [2.0, 2.0, 10.0]


def test_a_loss_of_another_shape_is_refused_by_name():
    class Total:
        def compute(self, tokens):
            return tokens.logp.sum()

    with pytest.raises(PluginError, match=r"Total.compute returned a tensor of shape \[\]: return the loss of each of 2 tokens"):
        _terms(_tokens([0.0, 1.0]), policy_loss=Total())


def test_a_sample_that_is_clipped_whole_is_never_said_to_be_dual_clipped():
    class Nothing:
        def compute(self, tokens):
            return tokens.logp * 0.0

    class NothingByToken(Nothing):
        traits = LossTraits(per_token=True)

    tokens = _tokens([-1.0, -3.0, -1.0, -1.0], old=[-2.0] * 4, advantages=[-1.0, -1.0, 1.0, 0.0])
    for loss, low, dual in ((Nothing(), [True, True], [False, False]), (NothingByToken(), [False, True], [True, False])):
        found = _terms(tokens, policy_loss=loss).measured
        assert found["clip/low"].tolist() == [*low, False, False]
        assert found["clip/dual"].tolist() == [*dual, False, False]
        assert found["clip/high"].tolist() == [False, False, True, False]


LOG_WEIGHTS = [math.log(0.25), math.log(3.0), math.log(0.9)]
"""Of two tokens of a sample, and of one of another."""


@pytest.mark.parametrize(
    ("options", "expected", "bounded"),
    [
        ({"rollout_is_threshold": 2.0}, [0.25, 2.0, 0.9], [False, True, False]),
        ({"rollout_is_threshold": 2.0, "rollout_is_lower": 0.5}, [0.0, 0.0, 0.9], [True, True, False]),
        ({"rollout_is_threshold": 2.0, "rollout_is": "sequence"}, [0.75, 0.75, 0.9], [False, False, False]),
        ({"rollout_is_threshold": 0.8, "rollout_is": "sequence"}, [0.75, 0.75, 0.8], [False, False, True]),
        ({"rollout_is_threshold": 2.0, "rollout_is_lower": 0.8, "rollout_is": "sequence"}, [0, 0, 0.9], [True, True, False]),
    ],
)
def test_importance_weights_are_truncated_or_masked_by_token_or_by_sample(options, expected, bounded):
    tokens = _tokens([0.0] * 3, sampler=[-one for one in LOG_WEIGHTS], samples=[0, 0, 1])
    found = _terms(tokens, correction=Correction(**options))
    assert found.weight.tolist() == pytest.approx(expected)
    assert found.slope.tolist() == pytest.approx([-one for one in expected])
    assert found.measured["correction/weight"].tolist() == pytest.approx(expected)
    assert found.measured["correction/bounded"].tolist() == bounded
    assert Correction(**options).per_token is ("rollout_is" not in options)


@pytest.mark.parametrize(
    ("measure", "bounds", "kept"),
    [
        ("token_k1", (2.0, None), [False, False, True]),
        ("token_k1", (4.5, 0.3), [True, True, True]),
        ("token_k2", (0.7, None), [False, True, True]),
        ("token_k3", (0.7, None), [True, False, True]),
        ("seq_sum_k1", (1.4, None), [True, True, True]),
        ("seq_sum_k1", (1.3, None), [False, False, True]),
        ("seq_sum_k3", (1.0, None), [False, False, True]),
        ("seq_mean_k1", (1.2, None), [True, True, True]),
        ("seq_mean_k1", (1.15, None), [False, False, True]),
        ("seq_mean_k3", (0.77, None), [True, True, True]),
        ("seq_max_k2", (0.7, None), [False, False, True]),
        ("seq_max_k3", (0.92, None), [True, True, True]),
    ],
)
def test_what_is_too_far_off_policy_is_left_out_by_token_or_with_its_sample(measure, bounds, kept):
    tokens = _tokens([0.0] * 3, sampler=[-one for one in LOG_WEIGHTS], samples=[0, 0, 1])
    correction = Correction(rollout_rs=measure, rollout_rs_threshold=bounds[0], rollout_rs_lower=bounds[1])
    found = _terms(tokens, correction=correction)
    assert found.weight.tolist() == [1.0 * one for one in kept]
    assert found.measured["correction/rejected"].tolist() == [not one for one in kept]
    assert found.measured["clip/high"].tolist() == [False] * 3, "what is left out is not clipped"
    assert correction.per_token is measure.startswith("token")


def test_weights_and_rejection_go_together():
    tokens = _tokens([0.0] * 3, sampler=[-one for one in LOG_WEIGHTS], samples=[0, 0, 1])
    correction = Correction(rollout_is_threshold=2.0, rollout_rs="token_k1", rollout_rs_threshold=3.5)
    assert _terms(tokens, correction=correction).weight.tolist() == pytest.approx([0.0, 2.0, 0.9])
