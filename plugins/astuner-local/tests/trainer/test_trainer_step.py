from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from attrs import evolve

from astuner.contract.schema import Sampling
from astuner.runs.inspection.metric_names import list_metric_names
from astuner.runs.training import Correction, MismatchWatch
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.trainer import Trainer


def _weights(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def _logprobs(model, row):
    ids = torch.from_numpy(row.sample.ids.astype(np.int64))[None]
    with torch.no_grad():
        logp = model(input_ids=ids).logits[0].log_softmax(-1)
    at = np.flatnonzero(row.sample.mask)
    return logp[at - 1, ids[0, at]].double()


def _recorded_by(model, rows):
    """The rows as if the model itself had sampled them."""
    found = []
    for row in rows:
        logprobs = np.zeros(len(row.sample.ids), np.float32)
        logprobs[row.sample.mask] = _logprobs(model, row).numpy()
        found.append(evolve(row, sample=evolve(row.sample, logprobs=logprobs)))
    return found


def _moved(model, seed=1):
    other = copy.deepcopy(model)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in other.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=draw))
    return other


def test_good_rows_become_likelier_and_bad_ones_less(make_model, make_row):
    model = make_model()
    good = make_row([5, 6, 7, 20, 21], trained=[3, 4], advantage=1.0, episode="good")
    bad = make_row([5, 6, 7, 30, 31], trained=[3, 4], advantage=-1.0, episode="bad")
    before = [_logprobs(model, row).sum() for row in (good, bad)]
    Trainer(model, TrainerOptions(lr=1e-2)).update([good, bad], 1)
    assert _logprobs(model, good).sum() > before[0]
    assert _logprobs(model, bad).sum() < before[1]


def test_update_is_one_step_of_plain_adamw(make_model, make_groups, expected_gradient):
    model, rows = make_model(), make_groups()
    expected = copy.deepcopy(model).double()
    tokens = sum(row.sample.trained for row in rows)
    for name, gradient in expected_gradient(model, rows, [1 / tokens] * len(rows)).items():
        expected.get_parameter(name).grad = gradient
    norm = torch.nn.utils.clip_grad_norm_(expected.parameters(), 0.5)
    # A large epsilon keeps AdamW's first step, else the sign of the gradient, sensitive to its size.
    torch.optim.AdamW(expected.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1).step()
    options = TrainerOptions(lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, grad_clip=0.5)
    metrics = Trainer(model, options).update(rows, 1)
    assert metrics["grad/norm"] == pytest.approx(float(norm), rel=1e-5)
    for name, p in model.named_parameters():
        # The first step of AdamW is the sign of the gradient; where that is rounding, only the bound 2·lr holds.
        settled = expected.get_parameter(name).grad.abs() > 1e-6
        torch.testing.assert_close(p.double()[settled], expected.get_parameter(name)[settled], rtol=1e-4, atol=1e-5)


def test_mismatch_is_that_between_the_trainer_and_what_the_sampler_recorded(make_model, make_groups):
    model, rows = make_model(), make_groups()
    drift = torch.cat([_logprobs(model, row) - torch.from_numpy(row.sample.logprobs[row.sample.mask]) for row in rows])
    metrics = Trainer(model, TrainerOptions()).update(rows, 1)
    assert metrics["mismatch/ratio_mean"] == pytest.approx(drift.exp().mean().item(), rel=1e-4)
    assert metrics["mismatch/exp_abs_mean"] == pytest.approx(drift.abs().exp().mean().item(), rel=1e-4)
    assert metrics["mismatch/abs_max"] == pytest.approx(drift.abs().max().item(), rel=1e-4)


def test_rows_that_the_model_sampled_itself_have_no_mismatch(make_model, make_groups):
    model = make_model()
    metrics = Trainer(model, TrainerOptions()).update(_recorded_by(model, make_groups()), 1)
    assert metrics["mismatch/abs_max"] < 1e-5


@pytest.mark.parametrize("mini_batches", [1, 4])
def test_what_is_recorded_gives_the_mismatch_of_every_sequence(make_model, make_groups, mini_batches):
    model, rows = make_model(), make_groups(groups=4)
    drifts = [
        (_logprobs(model, row) - torch.from_numpy(row.sample.logprobs[row.sample.mask])).mean().exp().item() for row in rows
    ]
    trainer = Trainer(model, TrainerOptions(lr=5e-2, mini_batch_num=mini_batches))
    metrics = trainer.update(rows, 1, record=True)
    found = MismatchWatch(warn=print, sampled_by="it").measure_update(1, rows, trainer.take_token_values())
    assert (found["mismatch/seq_ratio_min"], found["mismatch/seq_ratio_max"]) == pytest.approx(
        (min(drifts), max(drifts)), rel=1e-4
    )
    assert found["mismatch/abs_max"] == pytest.approx(metrics["mismatch/abs_max"], rel=1e-4)


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, -1), (0.7, -1), (1.0, 5)])
def test_samples_are_scored_in_the_distribution_of_their_sampling(make_model, make_groups, temperature, top_k):
    model, rows = make_model(), make_groups()
    sampling = Sampling(temperature=temperature, top_k=top_k)
    found = Trainer(model, TrainerOptions(temperature=2.0)).score([row.sample for row in rows], sampling)
    same = Trainer(model, TrainerOptions(temperature=temperature, top_k=top_k))
    same.update(rows, 1, record=True)
    np.testing.assert_allclose(np.concatenate(found), same.take_token_values().logprobs, atol=1e-5)


def test_importance_weight_enters_the_gradient(make_model, make_groups, gradients, expected_gradient, difference):
    model, rows = make_model(), _recorded_by(make_model(), make_groups())
    factor = 1 / sum(row.sample.trained for row in rows)
    # A sampler that gave every token half the probability: each weight is 2, and the bound is 1.5.
    halved = [evolve(row, sample=evolve(row.sample, logprobs=row.sample.logprobs - np.log(2) * row.sample.mask)) for row in rows]
    (found,) = gradients(model, halved, correction=Correction(rollout_is_threshold=1.5))
    assert difference(found, expected_gradient(model, rows, [1.5 * factor] * len(rows))) < 1e-5


def test_temperature_enters_the_gradient(make_model, make_groups, gradients, expected_gradient, difference):
    model, rows = make_model(), make_groups()
    factor = 1 / sum(row.sample.trained for row in rows)
    (found,) = gradients(model, rows, temperature=0.7)
    assert difference(found, expected_gradient(model, rows, [factor] * len(rows), temperature=0.7)) < 1e-5


def test_the_ratio_of_later_mini_batches_is_to_the_weights_at_the_start_of_the_step(make_model, make_groups):
    model, rows = make_model(), make_groups(groups=4)
    metrics = Trainer(model, TrainerOptions(lr=5e-2, mini_batch_num=4)).update(_recorded_by(model, rows), 1)
    assert metrics["signal/updates"] == 4
    assert metrics["update/relative"] > 0.05
    assert metrics["clip/low"] > 0
    assert metrics["clip/high"] > 0
    assert metrics["mismatch/abs_max"] < 1e-5


def test_one_mini_batch_is_never_clipped(make_model, make_groups):
    metrics = Trainer(make_model(), TrainerOptions(lr=5e-2)).update(make_groups(), 1)
    assert (metrics["clip/low"], metrics["clip/high"]) == (0, 0)


def test_a_step_with_nothing_to_train_says_so_and_moves_no_weight(make_model, make_groups, make_row):
    model = make_model()
    rows = [evolve(row, advantage=0.0) for row in make_groups(groups=1, repeats=2)] + [make_row([1, 2], trained=[])]
    before = _weights(model)
    trainer = Trainer(model, TrainerOptions(lr=1e-2, weight_decay=0.1))
    metrics = trainer.update(rows, 1)
    assert metrics["signal/nothing_to_train"] == 1
    assert metrics["signal/updates"] == 0
    assert "update/relative" not in metrics
    assert (metrics["signal/rows_zero_advantage"], metrics["signal/rows_without_tokens"]) == (2, 1)
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_a_step_without_rows_says_so(make_model):
    metrics = Trainer(make_model(), TrainerOptions()).update([], 1)
    assert (metrics["signal/rows"], metrics["signal/nothing_to_train"]) == (0, 1)


def test_a_gradient_that_is_not_finite_moves_no_weight_and_is_counted(make_model, make_groups):
    model = make_model()
    rows = [evolve(row, advantage=3e38) for row in make_groups()]
    before = _weights(model)
    metrics = Trainer(model, TrainerOptions(lr=1e-2, loss_agg_mode="seq-mean-token-sum")).update(rows, 1)
    assert (metrics["signal/updates"], metrics["signal/updates_not_finite"]) == (0, 1)
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


@pytest.mark.parametrize("clip", [None, 0.0])
def test_no_grad_clip_leaves_the_gradient_as_it_is(clip, make_model, make_groups, gradients, difference):
    rows = [evolve(row, advantage=row.advantage * 100) for row in make_groups()]
    (free,) = gradients(make_model(), rows, grad_clip=clip)
    assert float(torch.stack([g.norm() for g in free.values()]).norm()) > 1


def test_an_advantage_that_is_not_a_number_is_refused(make_row):
    with pytest.raises(ValueError, match="nan is not finite"):
        make_row([1, 2], trained=[1], advantage=math.nan)


def test_a_trained_token_that_nothing_precedes_is_refused(make_row):
    with pytest.raises(ValueError, match="first id is marked as trained"):
        make_row([1, 2], trained=[0])


def test_half_precision_masters_are_refused(make_model):
    with pytest.raises(ValueError, match="must be float32"):
        Trainer(make_model().bfloat16(), TrainerOptions())


def test_bfloat16_computes_about_the_same_gradient_over_float32_masters(make_model, make_groups, gradients):
    model, rows = make_model(), make_groups()
    (exact,), (rounded,) = gradients(model, rows), gradients(model, rows, dtype="bfloat16")
    flat, other = (torch.cat([g.flatten() for g in found.values()]) for found in (exact, rounded))
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert 0.99 < torch.nn.functional.cosine_similarity(flat, other, dim=0) < 1


def test_divergence_in_the_loss_has_the_gradient_of_its_estimator(make_model, make_row, gradients, difference):
    model = make_model()
    row = make_row([5, 6, 7, 20, 21, 22], trained=[3, 4, 5], advantage=0.5)
    (found,) = _with_reference(gradients, model, [row], "mse")
    exact = copy.deepcopy(model).double()
    ids = torch.from_numpy(row.sample.ids.astype(np.int64))[None]
    logp = exact(input_ids=ids).logits[0].log_softmax(-1)[[2, 3, 4], ids[0, 3:]]
    (0.3 * 0.5 * (logp - _logprobs(_moved(model), row)).square().mean() - 0.5 * logp.mean()).backward()
    assert difference(found, {name: p.grad for name, p in exact.named_parameters()}) < 1e-4


def _with_reference(gradients, model, rows, kind):
    return gradients(model, rows, reference=_moved(model), use_kl_loss=True, kl_loss_coef=0.3, kl_loss_type=kind)


def test_divergence_is_measured_from_the_model_as_it_was_at_the_start(make_model, make_groups):
    model, rows = make_model(), make_groups()
    trainer = Trainer(model, TrainerOptions(lr=1e-2, use_kl_loss=True, kl_loss_coef=1e-6))
    first, second = (trainer.update(rows, step)["kl/mean"] for step in (1, 2))
    assert first == 0
    assert second > 1e-3


def test_a_divergence_of_weight_zero_is_reported_and_trains_nothing(make_model, make_groups):
    rows = [evolve(row, advantage=float(row.group == "g0")) for row in make_groups()]
    metrics = Trainer(make_model(), TrainerOptions(use_kl_loss=True, kl_loss_coef=0.0), reference=_moved(make_model())).update(
        rows, 1
    )
    assert metrics["signal/rows_trained"] == 4
    assert metrics["kl/mean"] > 0
    assert metrics["loss/kl"] == 0


def test_divergence_for_the_reward_is_reported_with_the_next_update(make_model, make_groups):
    model, rows = make_model(), make_groups()
    trainer = Trainer(model, TrainerOptions(), reference=_moved(model))
    trainer.reference_kl([row.sample for row in rows])
    first, second = trainer.update(rows, 1), trainer.update(rows, 2)
    assert first["kl/mean"] > 0
    assert "kl/mean" not in second


def test_rows_without_advantage_are_trained_when_the_divergence_is_in_the_loss(make_model, make_groups):
    rows = [evolve(row, advantage=float(number == 0)) for number, row in enumerate(make_groups(groups=1))]
    metrics = Trainer(make_model(), TrainerOptions(use_kl_loss=True, kl_loss_coef=0.1)).update(rows, 1)
    assert metrics["signal/rows_trained"] == len(rows)


def test_a_divergence_without_any_advantage_moves_no_weight(make_model, make_groups):
    model = make_model()
    trainer = Trainer(model, TrainerOptions(lr=1e-2, use_kl_loss=True, kl_loss_coef=0.1), reference=_moved(model))
    trainer.update(make_groups(), 1)  # moments, which would move the weights on
    before = _weights(model)
    metrics = trainer.update([evolve(row, advantage=0.0) for row in make_groups()], 2)
    assert (metrics["signal/updates"], metrics["signal/nothing_to_train"], metrics["signal/rows_trained"]) == (0, 1, 0)
    assert all(torch.equal(before[name], p) for name, p in model.named_parameters())


def test_a_mini_batch_without_any_advantage_makes_no_optimizer_step(make_model, make_groups):
    rows = [evolve(row, advantage=float(row.group == "g0") * row.advantage) for row in make_groups(groups=2)]
    metrics = Trainer(make_model(), TrainerOptions(mini_batch_num=2, use_kl_loss=True, kl_loss_coef=0.1)).update(rows, 1)
    assert (metrics["signal/updates"], metrics["signal/rows_trained"]) == (1, 4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("family", ["qwen2", "qwen3", "llama"])
def test_the_divergence_from_equal_weights_is_exactly_nothing(family, dtype, make_model, make_groups):
    model, rows = _moved(make_model(family)), make_groups()  # with gains of norms other than 1, which a forward may fold
    trainer = Trainer(model, TrainerOptions(dtype=dtype, use_kl_loss=True, kl_loss_coef=1.0), reference=copy.deepcopy(model))
    assert not np.concatenate(trainer.reference_kl([row.sample for row in rows])).any()
    assert trainer.update(rows, 1)["loss/kl"] == 0


def test_divergence_for_the_reward_is_that_of_each_trained_token(make_model, make_groups):
    model, rows = make_model(), make_groups()
    reference = _moved(model)
    found = Trainer(model, TrainerOptions(), reference=reference).reference_kl([row.sample for row in rows])
    for own, row in zip(found, rows, strict=True):
        assert own == pytest.approx((_logprobs(model, row) - _logprobs(reference, row)).numpy(), rel=1e-3, abs=1e-5)


def test_tokens_of_one_row_may_have_different_advantages(make_model, make_row, gradients, difference):
    whole = make_row([5, 6, 7, 20, 21, 22], trained=[3, 4, 5])
    mixed = evolve(whole, advantage=0.0, token_advantages=np.array([1.0, -2.0, 1.0]))
    parts = [evolve(make_row([5, 6, 7, 20, 21, 22], trained=[at]), advantage=a) for at, a in ((3, 1.0), (4, -2.0), (5, 1.0))]
    ((found,), (expected,)) = gradients(make_model(), [mixed]), gradients(make_model(), parts)
    assert difference(found, expected) < 1e-5


def test_divergence_for_the_reward_without_a_reference_is_refused(make_model, make_groups):
    with pytest.raises(ValueError, match="no reference to measure from"):
        Trainer(make_model(), TrainerOptions()).reference_kl([row.sample for row in make_groups()])


def test_an_update_has_the_metrics_that_all_backbones_share(make_model, make_groups):
    metrics = Trainer(make_model(), TrainerOptions()).update(make_groups(), 1)
    assert {metric.name for metric in list_metric_names() if metric.shared == "updates"} - set(metrics) == set()
