"""Losses of the literature: values by hand, gradients by finite differences, and what holds for every loss."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from attrs import evolve
from ragged_tokens import LENGTHS, cut_tokens, make_tokens
from torch import Tensor

from astuner.contract.protocols import LossTraits, PolicyLoss, TrainedTokens, read_traits
from astuner.runs.training import LossOptions, token_terms
from astuner_algorithms.losses import Cispo, Dppo, Gmpo, Gspo, Sapo

LOSSES: dict[str, PolicyLoss] = {
    "gspo": Gspo(Gspo.Options(clip_ratio_low=0.03, clip_ratio_high=0.05)),
    "gmpo": Gmpo(Gmpo.Options(clip_log_ratio_low=0.3, clip_log_ratio_high=0.4)),
    "cispo": Cispo(Cispo.Options(clip_ratio_low=0.5, clip_ratio_high=1.0)),
    "sapo": Sapo(),
    "dppo-tv": Dppo(Dppo.Options(clip_divergence_low=0.1, clip_divergence_high=0.15)),
    "dppo-kl": Dppo(Dppo.Options(divergence="kl", clip_divergence_low=0.02, clip_divergence_high=0.05)),
}
every_loss = pytest.mark.parametrize("loss", [pytest.param(loss, id=name) for name, loss in LOSSES.items()])


def one_sample(ratios: list[float], advantage: float, *, before: float = -1.0) -> TrainedTokens:
    """Return the tokens of one sample with these ratios."""
    old = torch.full((len(ratios),), before, dtype=torch.float64)
    logp = (old + torch.tensor(ratios, dtype=torch.float64).log()).requires_grad_()
    advantages = torch.full_like(old, advantage)
    return TrainedTokens(logp=logp, old=old, sampler=old, advantages=advantages, samples=torch.zeros(len(old), dtype=torch.int64))


def slopes(loss: PolicyLoss, tokens: TrainedTokens) -> Tensor:
    """Return the gradient of the sum of the losses at each log-probability."""
    (found,) = torch.autograd.grad(loss.compute(tokens).sum(), tokens.logp)
    return found


def differentiate(objective: Callable[[Tensor], Tensor], at: Tensor, step: float = 1e-6) -> Tensor:
    """Return the central differences of a function with one value."""
    found = torch.zeros_like(at)
    for i in range(len(at)):
        moved = torch.zeros_like(at)
        moved[i] = step
        found[i] = (objective(at.detach() + moved) - objective(at.detach() - moved)) / (2 * step)
    return found


def share_of_sample(tokens: TrainedTokens) -> Tensor:
    """Return the weights of `seq-mean-token-mean`, without the number of samples."""
    return 1 / tokens.add_up(torch.ones_like(tokens.old))


@every_loss
@pytest.mark.parametrize("spread", [0.05, 0.5, 2.0])
def test_samples_may_come_in_any_calls(loss: PolicyLoss, spread: float) -> None:
    tokens = make_tokens(1, spread)
    whole = loss.compute(tokens)
    parts = [loss.compute(cut_tokens(tokens, tokens.samples == sample)) for sample in range(len(LENGTHS))]
    torch.testing.assert_close(whole, torch.cat(parts), rtol=1e-12, atol=1e-12)


@every_loss
def test_a_loss_of_single_tokens_needs_no_others(loss: PolicyLoss) -> None:
    tokens = make_tokens(2, 0.5)
    some = torch.arange(len(tokens.old)) % 3 == 0
    alike = torch.allclose(loss.compute(tokens)[some], loss.compute(cut_tokens(tokens, some)))
    assert alike == read_traits(loss, LossTraits).per_token


@every_loss
def test_on_policy_each_has_the_gradient_of_plain_reinforce(loss: PolicyLoss) -> None:
    """With r = 1 it is -A for each token: with the shares of GMPO's samples, whose loss is the sample's."""
    tokens = make_tokens(3, 0.0)
    tokens = evolve(tokens, logp=tokens.old.clone().requires_grad_())
    torch.testing.assert_close(slopes(loss, tokens), -tokens.advantages)


@every_loss
def test_it_is_finite_however_far_the_policies_are_apart(loss: PolicyLoss) -> None:
    for apart in (-500.0, 500.0):
        for advantage in (-1.0, 1.0):
            tokens = one_sample([1.0, 1.0], advantage)
            tokens = evolve(tokens, logp=(tokens.old + apart).float().requires_grad_(), old=tokens.old.float())
            assert loss.compute(tokens).isfinite().all()
            assert slopes(loss, tokens).isfinite().all()


@every_loss
def test_it_travels_to_where_the_weights_are(loss: PolicyLoss) -> None:
    tokens = make_tokens(4, 0.5)
    assert torch.equal(pickle.loads(pickle.dumps(loss)).compute(tokens), loss.compute(tokens))


@every_loss
def test_no_advantage_no_gradient(loss: PolicyLoss) -> None:
    assert not slopes(loss, one_sample([0.5, 2.0, 1.0], 0.0)).any()


@every_loss
def test_a_sample_of_one_token(loss: PolicyLoss) -> None:
    tokens = one_sample([1.02], 1.5)
    ratio = {"Cispo": 1.02 * tokens.logp.item(), "Dppo": 1.02 * tokens.logp.item(), "Sapo": _sapo(1.02, 1.0)}
    expected = -1.5 * ratio.get(type(loss).__name__, 1.02)
    assert loss.compute(tokens).tolist() == pytest.approx([expected])


def _sapo(ratio: float, tau: float) -> float:
    return float(4 / tau / (1 + torch.tensor(-tau * (ratio - 1), dtype=torch.float64).exp()))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("spread", [0.05, 0.5])
@pytest.mark.parametrize("name", ["gspo", "gmpo", "sapo"])
def test_gradients_are_those_of_the_formula_of_the_paper(name: str, spread: float, seed: int) -> None:
    """Of whole samples for GSPO and GMPO, written as in the papers; by finite differences."""
    tokens = make_tokens(seed, spread)

    def gspo(logp: Tensor) -> Tensor:
        found = []
        for sample in range(len(LENGTHS)):
            own = tokens.samples == sample
            ratio, advantage = (logp[own] - tokens.old[own]).mean().exp(), tokens.advantages[own][0]
            found.append(-torch.minimum(ratio * advantage, ratio.clamp(0.97, 1.05) * advantage))
        return torch.stack(found).sum()

    def gmpo(logp: Tensor) -> Tensor:
        found = []
        for sample in range(len(LENGTHS)):
            own = tokens.samples == sample
            log_ratio, advantage = logp[own] - tokens.old[own], tokens.advantages[own][0]
            clipped = log_ratio.clamp(-0.3, 0.4)
            log_ratio = torch.minimum(log_ratio, clipped) if advantage > 0 else torch.maximum(log_ratio, clipped)
            found.append(-advantage * log_ratio.exp().prod() ** (1 / own.sum()))
        return torch.stack(found).sum()

    def sapo(logp: Tensor) -> Tensor:
        tau = 1.05 - 0.05 * (tokens.advantages > 0).double()
        gates = 4 / tau / (1 + (-tau * ((logp - tokens.old).exp() - 1)).exp())
        return -(gates * tokens.advantages * share_of_sample(tokens)).sum()

    objective = {"gspo": gspo, "gmpo": gmpo, "sapo": sapo}[name]
    loss = (LOSSES[name].compute(tokens) * share_of_sample(tokens)).sum()
    (found,) = torch.autograd.grad(loss, tokens.logp)
    torch.testing.assert_close(found, differentiate(objective, tokens.logp), rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(loss.detach(), objective(tokens.logp.detach()))


@pytest.mark.parametrize(("advantage", "ratios", "clipped"), [
    (1.0, [1.04, 1.04], False),
    (1.0, [1.1, 1.1], True),
    (1.0, [0.5, 0.5], False),
    (-1.0, [0.98, 0.98], False),
    (-1.0, [0.9, 0.9], True),
    (-1.0, [1.5, 1.5], False),
    # The mean decides, not the token.
    (1.0, [1.5, 1 / 1.5], False),
])  # fmt: skip
def test_gspo_clips_whole_samples(advantage: float, ratios: list[float], clipped: bool) -> None:
    assert (slopes(LOSSES["gspo"], one_sample(ratios, advantage)) == 0).tolist() == [clipped] * 2


@pytest.mark.parametrize(("advantage", "clipped"), [(1.0, [False, True, False]), (-1.0, [True, False, False])])
def test_gmpo_clips_single_tokens_of_a_sample(advantage: float, clipped: list[bool]) -> None:
    assert (slopes(LOSSES["gmpo"], one_sample([0.5, 2.0, 1.1], advantage)) == 0).tolist() == clipped


def test_gmpo_takes_the_mean_of_advantages_that_differ() -> None:
    tokens = one_sample([1.1, 1.2], 1.0)
    tokens = evolve(tokens, advantages=torch.tensor([3.0, 1.0], dtype=torch.float64))
    assert Gmpo().compute(tokens).tolist() == pytest.approx([-2 * (1.1 * 1.2) ** 0.5] * 2)


def test_cispo_bounds_the_weight_and_keeps_every_gradient() -> None:
    """The gradient is that of -w·A·log π with the weight held."""
    for advantage in (-2.0, 2.0):
        found = slopes(LOSSES["cispo"], one_sample([0.1, 0.8, 1.7, 9.0], advantage))
        assert found.tolist() == pytest.approx([-w * advantage for w in (0.5, 0.8, 1.7, 2.0)])


def test_sapo_gates_softly_and_faster_for_negative_advantages() -> None:
    ratios = [0.2, 1.0, 3.0]
    loss = Sapo(Sapo.Options(tau_positive=1.0, tau_negative=2.0))
    good, bad = (slopes(loss, one_sample(ratios, advantage)).abs() / torch.tensor(ratios) for advantage in (1.0, -1.0))
    assert good[1].item() == pytest.approx(1.0) == bad[1].item()
    assert 0 < bad[0] < good[0] < 1
    assert 0 < bad[2] < good[2] < 1


@pytest.mark.parametrize(("before", "ratio", "advantage", "kept"), [
    # A rare token may become three times as likely: it moves 2 % of the probability.
    (0.01, 3.0, 1.0, True),
    # A likely one moves 18 % with a ratio of 1.3.
    (0.6, 1.3, 1.0, False),
    (0.6, 1.3, -1.0, True),
    (0.6, 0.7, -1.0, False),
    (0.6, 0.7, 1.0, True),
])  # fmt: skip
@pytest.mark.parametrize("name", ["dppo-tv", "dppo-kl"])
def test_dppo_leaves_out_tokens_that_moved_much_probability(
    name: str, before: float, ratio: float, advantage: float, kept: bool
) -> None:
    tokens = one_sample([ratio], advantage, before=float(torch.tensor(before).log()))
    assert slopes(LOSSES[name], tokens).item() == pytest.approx(-ratio * advantage * kept)


def test_dppo_bounds_the_weight() -> None:
    loss = Dppo(Dppo.Options(clip_ratio_c=2.0, clip_divergence_high=1.0))
    assert slopes(loss, one_sample([3.0], 1.0, before=-9.0)).item() == pytest.approx(-2.0)


@pytest.mark.parametrize(("name", "expected"), [
    ("gspo", {"clip/high": [0, 1], "clip/low": [2]}),
    ("gmpo", {"clip/high": [0, 1], "clip/low": [2]}),
    ("cispo", {"clip/high": [], "clip/low": []}),
    ("sapo", {"clip/high": [], "clip/low": []}),
    ("dppo-tv", {"clip/high": [0, 1], "clip/low": [2]}),
])  # fmt: skip
def test_what_is_clipped_is_measured(name: str, expected: dict[str, list[int]]) -> None:
    """Two samples: both tokens of the first went far up, that of the second far down."""
    tokens = one_sample([2.0, 2.0, 0.4], 1.0)
    samples, signs = torch.tensor([0, 0, 1]), torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    tokens = evolve(tokens, samples=samples, advantages=signs)
    terms = token_terms(tokens, shares=torch.ones(3, dtype=torch.float64), options=LossOptions(policy_loss=LOSSES[name]))
    assert {key: terms.measured[key].nonzero()[:, 0].tolist() for key in expected} == expected


@pytest.mark.parametrize(("options", "wrong"), [
    (Gspo.Options, {"clip_ratio_low": 1.5}),
    (Gmpo.Options, {"clip_log_ratio_high": -0.1}),
    (Cispo.Options, {"clip_ratio_high": -1.0}),
    (Sapo.Options, {"tau_positive": 0.0}),
    (Dppo.Options, {"divergence": "js"}),
    (Dppo.Options, {"clip_ratio_c": 0.0}),
])  # fmt: skip
def test_options_that_make_no_sense_are_refused(options: Any, wrong: dict[str, Any]) -> None:
    (field,) = wrong
    with pytest.raises(ValueError, match=field):
        options(**wrong)
