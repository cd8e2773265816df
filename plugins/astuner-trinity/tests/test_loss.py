"""The loss of a pass: core's tokens, weighed; the ratio is to what sampled a row only where that is not what is trained."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("trinity")

from astuner.contract.protocols import TrainedTokens  # noqa: E402
from astuner.runs.training import Correction, PpoClip  # noqa: E402
from astuner_trinity.rows import STREAMS  # noqa: E402
from astuner_trinity.trainer.loss import EntropyMeasure, LossOptions, compute_weighed_loss  # noqa: E402

OPTIONS = LossOptions(policy_loss=PpoClip(clip_ratio_low=0.2, clip_ratio_high=0.28), kl_loss_coef=0.1)


class OfSamples:
    """The loss of a sample is its advantage times its mean ratio: its tokens belong together."""

    def compute(self, tokens: TrainedTokens) -> Any:
        """Return the loss of each token."""
        return -tokens.advantages * tokens.average(tokens.log_ratio()).exp()


COUPLED = LossOptions(
    policy_loss=OfSamples(), correction=Correction(rollout_is="sequence", rollout_is_threshold=1.5, rollout_rs="seq_mean_k1")
)


def batch(rows: int, seed: int, stale: float = 0.0) -> dict[str, Any]:
    random = torch.Generator().manual_seed(seed)

    def noise() -> Any:
        return -torch.rand(rows, 5, generator=random, dtype=torch.float64) * 3

    mask = torch.rand(rows, 5, generator=random) < 0.6
    advantages = torch.randn(rows, 1, generator=random, dtype=torch.float64).expand(rows, 5)
    return {
        "logp": noise().requires_grad_(),
        "sampler": noise(),
        "mask": mask,
        "advantages": advantages,
        "share": torch.rand(rows, generator=random, dtype=torch.float64),
        "stale": torch.full((rows,), stale),
        "reference": noise(),
    }


def add_streams(whole: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return a batch with what an estimator adds to the loss."""
    random = torch.Generator().manual_seed(seed)
    shape = whole["mask"].shape
    added = {name: torch.randn(shape, generator=random, dtype=torch.float64) for name in STREAMS}
    return {**whole, "streams": added}


def gradient(parts: list[dict[str, Any]], workers: int = 1, options: LossOptions = OPTIONS) -> Any:
    found = [
        compute_weighed_loss(options, one["logp"], **{k: v for k, v in one.items() if k != "logp"}, workers=workers).loss
        for one in parts
    ]
    return torch.cat([torch.autograd.grad(loss, one["logp"])[0] for loss, one in zip(found, parts, strict=True)])


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(2, 6),
    seed=st.integers(0, 1000),
    stale=st.sampled_from([0.0, 1.0]),
    options=st.sampled_from([OPTIONS, COUPLED]),
)
def test_passes_add_up_to_the_whole(rows: int, seed: int, stale: float, options: LossOptions) -> None:
    whole = batch(rows, seed, stale)
    cut = rows // 2
    parts = [
        {name: value[:cut].detach().requires_grad_(name == "logp") for name, value in whole.items()},
        {name: value[cut:].detach().requires_grad_(name == "logp") for name, value in whole.items()},
    ]
    assert torch.allclose(gradient([whole], options=options), gradient(parts, options=options))
    # Workers average: each has to count for all.
    assert torch.allclose(gradient([whole], options=options), gradient(parts, workers=2, options=options) / 2)


def test_the_ratio_is_one_where_the_steps_own_weights_sampled() -> None:
    fresh, old = batch(4, 1), batch(4, 1, stale=1.0)
    sums = compute_weighed_loss(OPTIONS, fresh.pop("logp"), **fresh).sums
    assert float(sums["update_ratio"]) == 0.0
    assert int(sums["clip/low"]) == int(sums["clip/high"]) == 0
    sums = compute_weighed_loss(OPTIONS, old.pop("logp"), **old).sums
    assert float(sums["update_ratio"]) > 0.1
    assert int(sums["clip/low"]) + int(sums["clip/high"]) > 0


@pytest.mark.parametrize("kind", ["mse", "abs"])
def test_likelihood_and_divergence_have_the_gradient_of_their_formulas(kind: Any) -> None:
    options = evolve(OPTIONS, kl_loss_type=kind)
    plain = batch(4, 7)
    one = add_streams(plain, 8)
    streams, leaf, factors = one["streams"], plain["logp"], (plain["share"].unsqueeze(1) * plain["mask"])
    apart = (leaf - streams["reference"]).abs() if kind == "abs" else 0.5 * (leaf - streams["reference"]) ** 2
    added = ((streams["divergence"] * apart - streams["likelihood"] * leaf) * factors).sum()
    expected = gradient([plain], options=options) + torch.autograd.grad(added, leaf)[0]
    assert torch.allclose(gradient([one], options=options), expected)
    sums = compute_weighed_loss(options, leaf, **{name: value for name, value in one.items() if name != "logp"}).sums
    assert float(sums["loss/likelihood"]) == pytest.approx(float(-(streams["likelihood"] * leaf.detach() * factors).sum()))


def test_padding_and_masked_tokens_have_no_gradient() -> None:
    one = batch(4, 2)
    one["share"][1] = 0.0
    found = gradient([one])
    assert torch.all(found[1] == 0)
    assert torch.all(found[~one["mask"]] == 0)
    assert torch.any(found[0] != 0)


@pytest.mark.parametrize("options", [OPTIONS, COUPLED])
def test_a_pass_of_padding_alone_has_a_gradient_of_zero(options: LossOptions) -> None:
    one = batch(3, 3)
    one["mask"], one["advantages"] = torch.zeros(3, 5), torch.zeros(3, 5, dtype=torch.float64)
    found = compute_weighed_loss(options, one["logp"], **{name: value for name, value in one.items() if name != "logp"})
    assert float(found.loss.detach()) == 0.0
    assert torch.autograd.grad(found.loss, one["logp"])[0].eq(0).all()
    assert {float(value) for value in found.sums.values()} == {0.0}


def test_rows_without_a_token_are_no_samples() -> None:
    """A loss may number its tensors by sample, and there may be fewer tokens than rows."""
    one = batch(4, 4)
    one["mask"] = torch.zeros(4, 5)
    one["mask"][3, 2] = 1
    found = gradient([one], options=COUPLED)
    alone = {name: value[3:].detach().requires_grad_(name == "logp") for name, value in one.items()}
    assert found[3, 2] != 0
    assert torch.equal(found[3:], gradient([alone], options=COUPLED))


def test_a_correction_is_measured() -> None:
    one = batch(4, 5)
    sums = compute_weighed_loss(COUPLED, one.pop("logp"), **one).sums
    assert {"correction/weight", "correction/bounded", "correction/rejected"} <= set(sums)
    assert 0 < int(sums["correction/bounded"]) <= int(sums["tokens"])


def measure_entropy(entropy: Any, **options: Any) -> Any:
    mask, share = torch.tensor([[1, 0, 1], [1, 1, 1]]), torch.tensor([0.5, 0.0])
    loss, metrics = EntropyMeasure(**options)(entropy, mask, share=share, loss_agg_mode="token-mean", advantages=entropy)
    # The second row only pads the workers' parts.
    assert metrics["astuner/entropy"].aggregate() == 5
    return loss


def test_the_entropy_of_the_trained_tokens_is_measured() -> None:
    assert measure_entropy(torch.tensor([[1.0, 2.0, 4.0], [8.0, 8.0, 8.0]], requires_grad=True)) == 0


def test_the_entropy_of_the_trained_tokens_is_trained_with_its_weight() -> None:
    entropy = torch.tensor([[1.0, 2.0, 4.0], [8.0, 8.0, 8.0]], requires_grad=True)
    reward = measure_entropy(entropy, entropy_coef=0.1)
    assert float(reward.detach()) == pytest.approx(0.1 * 0.5 * 5)
    reward.backward()
    assert entropy.grad.tolist() == [[pytest.approx(0.05), 0, pytest.approx(0.05)], [0, 0, 0]]
