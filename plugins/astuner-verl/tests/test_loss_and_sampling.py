"""The loss and the sampler alone, where torch and verl are installed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed")


def batch(random: np.random.Generator, rows: int) -> tuple[Any, Any, Any]:
    """Return rows as verl gets them, log-probabilities of all their tokens, and these rows."""
    import torch

    from astuner_verl.rows import TrainRow, balance, to_tensors

    made = []
    for number in range(rows):
        size, start = int(random.integers(4, 12)), int(random.integers(1, 4))
        mask = random.random(size - start) < 0.6
        mask[-1] = True
        made.append(
            TrainRow(
                ids=random.integers(0, 50, size),
                start=start,
                mask=mask,
                logprobs=np.where(mask, -random.random(size - start), 0).astype(np.float32),
                advantages=np.where(mask, random.normal(size=size - start), 0).astype(np.float32),
                share=float(random.random()),
                number=number,
            )
        )
    order = balance([len(row.ids) for row in made], 3)
    data = to_tensors(made, order, dp_size=1)
    logp = [torch.tensor(-random.random(len(row)), dtype=torch.float32) for row in data["input_ids"].unbind()]
    return data, torch.nested.as_nested_tensor(logp, layout=torch.jagged), (made, order)


@given(st.integers(0, 10_000), st.integers(1, 7), st.sampled_from([None, 1.3]))
@settings(max_examples=30)
def test_the_loss_is_that_of_the_formula_summed_over_trained_tokens(seed: int, rows: int, threshold: float | None) -> None:
    from astuner.runs.training import Correction, LossOptions
    from astuner_verl.loss import compute_weighed_loss

    data, logp, (made, order) = batch(np.random.default_rng(seed), rows)
    options = LossOptions(correction=Correction(rollout_is_threshold=threshold))
    loss, metrics = compute_weighed_loss(options, {"log_probs": logp}, data)
    expected, tokens = 0.0, 0
    for place, own in zip(order, logp.unbind(), strict=True):
        if place is None:
            continue
        row = made[place]
        for at in np.flatnonzero(row.mask):
            old = float(own[row.start - 1 + at])
            weight = 1.0 if threshold is None else min(np.exp(old - row.logprobs[at]), threshold)
            expected += -row.advantages[at] * weight * row.share
            tokens += 1
    assert float(loss) == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert metrics["astuner/tokens"].aggregate() == tokens


class WholeSamples:
    """A loss of whole samples that takes it for granted that there is one, and that they are numbered one after the other."""

    def compute(self, tokens: Any) -> Any:
        import torch

        assert tokens.samples.unique().tolist() == list(range(int(tokens.samples.max()) + 1))
        average = tokens.average(tokens.log_ratio())
        return -tokens.advantages * torch.exp(average).clamp(0.9, 1.1)


@given(st.integers(0, 10_000), st.integers(1, 6), st.booleans())
@settings(max_examples=30)
def test_passes_of_a_batch_add_up_to_it_and_those_of_padding_add_nothing(seed: int, rows: int, whole_samples: bool) -> None:
    import torch
    from verl.utils import tensordict_utils as tu

    from astuner.runs.training import Correction, LossOptions, PpoClip
    from astuner_verl.loss import compute_weighed_loss

    random = np.random.default_rng(seed)
    data, logp, (_, order) = batch(random, rows)
    noise = torch.tensor(random.normal(0, 0.2, logp.values().numel()), dtype=torch.float32)
    data["old_log_probs"] = data["rollout_log_probs"]  # of each answer
    options = LossOptions(
        policy_loss=WholeSamples() if whole_samples else PpoClip(),
        correction=Correction(rollout_is="sequence", rollout_is_threshold=2.0, rollout_rs="seq_max_k3"),
    )

    def compute(values: list[Any], part: Any) -> tuple[float, list[Any], Any]:
        leaves = [value.clone().requires_grad_() for value in values]
        nested = torch.nested.as_nested_tensor(leaves, layout=torch.jagged)
        loss, metrics = compute_weighed_loss(options, {"log_probs": nested}, part)
        loss.backward()
        return float(loss), [leaf.grad for leaf in leaves], metrics

    rows_of = list((torch.nested.nested_tensor_from_jagged(logp.values() + noise, logp.offsets())).unbind())
    whole, gradients, metrics = compute(rows_of, data)
    parts = [compute([own], part) for own, part in zip(rows_of, tu.chunk_tensordict(data, len(order)), strict=True)]
    assert sum(loss for loss, _, _ in parts) == pytest.approx(whole, rel=1e-4, abs=1e-5)
    for place, expected, (loss, (found,), own) in zip(order, gradients, parts, strict=True):
        torch.testing.assert_close(found, expected)
        if place is None:
            assert (loss, float(found.abs().max()), own["astuner/tokens"].aggregate()) == (0, 0, 0)
    for name, value in metrics.items():
        if name != "astuner/abs_max":
            total = sum(own[name].aggregate() for _, _, own in parts)
            assert total == pytest.approx(value.aggregate(), rel=1e-4, abs=1e-5), name


def test_the_entropy_counts_what_the_step_says() -> None:
    import torch
    from verl.utils import tensordict_utils as tu

    from astuner.runs.training import LossOptions
    from astuner_verl.loss import ENTROPY_COEFF, compute_weighed_loss

    data, logp, (made, order) = batch(np.random.default_rng(1), 4)
    leaf = torch.rand(logp.values().numel()).requires_grad_()
    entropy = torch.nested.nested_tensor_from_jagged(leaf, logp.offsets())
    losses = {}
    for weight in (0.0, 0.5):
        tu.assign_non_tensor(data, **{ENTROPY_COEFF: weight})
        losses[weight], metrics = compute_weighed_loss(LossOptions(), {"log_probs": logp, "entropy": entropy}, data)
    counted = [
        own[made[place].start - 1 : -1][torch.tensor(made[place].mask)]
        for place, own in zip(order, entropy.unbind(), strict=True)
        if place is not None
    ]
    shares = [made[place].share for place in order if place is not None]
    expected = sum(share * float(own.sum()) for share, own in zip(shares, counted, strict=True))
    assert float(losses[0.0] - losses[0.5]) == pytest.approx(0.5 * expected, rel=1e-4)
    losses[0.5].backward()
    assert float(leaf.grad.sum()) == pytest.approx(
        -0.5 * sum(share * len(own) for share, own in zip(shares, counted, strict=True))
    )
    assert metrics["astuner/entropy"].aggregate() == pytest.approx(float(sum(own.sum() for own in counted)), rel=1e-5)


@given(st.integers(0, 10_000), st.integers(1, 7))
@settings(max_examples=20)
def test_every_trained_token_is_recorded_in_its_row_and_padding_is_not(seed: int, rows: int) -> None:
    from astuner.runs.training import LossOptions
    from astuner.runs.training.token_values import join_passes
    from astuner_verl.loss import compute_weighed_loss
    from astuner_verl.token_record import TokenRecord

    data, logp, (made, order) = batch(np.random.default_rng(seed), rows)
    record = TokenRecord()
    compute_weighed_loss(LossOptions(), {"log_probs": logp}, data, record=record)
    found = join_passes([one.to_values() for one in record.take()], rows)
    expected: list[list[float]] = [[]] * rows
    for place, own in zip(order, logp.unbind(), strict=True):
        if place is not None:
            expected[place] = own[made[place].start - 1 : -1].numpy()[made[place].mask].tolist()
    assert found is not None
    assert found.lengths.tolist() == [len(one) for one in expected]
    assert found.logprobs.tolist() == [value for one in expected for value in one]
    assert found.rl.tolist() == [value for row in made for value in row.advantages[row.mask].tolist()]
    assert np.isnan(found.entropies).all()
    assert record.take() == []


def wanted(**values: Any) -> Any:
    from astuner_verl.transformers_rollout.sampling import SamplingSpec

    return SamplingSpec.from_params({"max_tokens": 4, "seed": 1, **values}, 10)


def test_truncated_distributions_are_renormalised_and_whole_ones_left() -> None:
    import torch

    from astuner_verl.transformers_rollout.sampling import distribution

    logits = torch.tensor([[2.0, 1.0, 0.0, -5.0]]).repeat(4, 1)
    asked = [wanted(), wanted(top_k=2), wanted(top_p=0.7), wanted(temperature=2.0)]
    found = distribution(logits, asked).exp()
    plain = logits[0].softmax(-1)
    assert found.sum(-1).tolist() == pytest.approx([1.0] * 4)
    assert found[0].tolist() == pytest.approx(plain.tolist())
    assert found[1].tolist() == pytest.approx([float(plain[0] / plain[:2].sum()), float(plain[1] / plain[:2].sum()), 0, 0])
    # 0.66 is not yet 0.7, so the second stays too.
    assert (found[2] > 0).tolist() == [True, True, False, False]
    assert found[3].tolist() == pytest.approx((logits[0] / 2).softmax(-1).tolist())


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    import torch

    from astuner_verl.transformers_rollout.sampling import distribution, draw

    logp = distribution(torch.tensor([[1.0, 0.0, -1.0]]), [wanted()]).repeat(30_000, 1)
    drawn = draw(
        logp, [wanted()] * len(logp), torch.rand(len(logp), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    )
    assert (torch.bincount(drawn, minlength=3) / len(logp)).tolist() == pytest.approx(logp[0].exp().tolist(), abs=0.01)


def test_greedy_takes_the_likeliest_and_leaves_the_distribution() -> None:
    import torch

    from astuner_verl.transformers_rollout.sampling import distribution, draw

    asked = [wanted(temperature=0.0, top_k=1)]
    logp = distribution(torch.tensor([[0.0, 3.0, 1.0]]), asked)
    assert draw(logp, asked, torch.tensor([0.999], dtype=torch.float64)).tolist() == [1]
    assert float(logp.exp().sum()) == pytest.approx(1)


def test_the_same_seed_draws_the_same_and_a_long_one_is_borne() -> None:
    first, second, other = (wanted(seed=seed).uniforms().tolist() for seed in (2**64 - 1, 2**64 - 1, 5))
    assert first == second != other
