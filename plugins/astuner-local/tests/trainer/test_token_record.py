"""What the trainer records of a token is what a plain computation gives."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
import torch
from attrs import evolve

from astuner.runs.training import Correction, PpoClip
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.trainer import Trainer


def plain_logprobs(model, rows):
    """Log-probability and entropy of every trained token, row by row, by transformers' own forward pass."""
    chosen, entropies = [], []
    for row in rows:
        ids = torch.from_numpy(row.sample.ids.astype(np.int64))[None]
        with torch.no_grad():
            logp = model(input_ids=ids).logits[0].double().log_softmax(-1)
        at = np.flatnonzero(row.sample.mask)
        chosen.append(logp[at - 1, ids[0, at]])
        entropies.append(-(logp[at - 1].exp() * logp[at - 1]).sum(-1))
    return torch.cat(chosen).numpy(), torch.cat(entropies).numpy()


def move(model, scale=0.05):
    other = copy.deepcopy(model)
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in other.parameters():
            p.add_(scale * torch.randn(p.shape, generator=draw))
    return other


def spread(rows):
    return np.concatenate([row.spread() for row in rows])


def record(trainer, rows, step=1):
    trainer.update(rows, step, record=True)
    return trainer.take_token_values()


@pytest.mark.parametrize("budget", [64, 10_000])
def test_the_values_of_the_rows_are_those_of_a_plain_forward_pass(make_model, make_groups, budget):
    model, rows = make_model(), make_groups()
    other = move(model)
    expected = *plain_logprobs(model, rows), plain_logprobs(other, rows)[0]
    options = TrainerOptions(use_kl_loss=True, kl_loss_coef=0.02, micro_batch_tokens=budget)
    found = record(Trainer(model, options, reference=other), rows)
    assert found.lengths.tolist() == [row.sample.trained for row in rows]
    for name, values in zip(("logprobs", "entropies", "reference_logprobs"), expected, strict=True):
        np.testing.assert_allclose(getattr(found, name), values, atol=1e-4, err_msg=name)
    np.testing.assert_array_equal(found.ratios, 1)
    np.testing.assert_allclose(found.rl, spread(rows), rtol=1e-6)
    np.testing.assert_allclose(found.ref_kl, 0.02)
    assert not found.clips.any()
    assert not found.ce.any()


def test_what_an_estimator_adds_to_the_loss_is_recorded_token_by_token(make_model, make_groups):
    model, rows = make_model(), make_groups()
    rng = np.random.default_rng(0)
    added = [
        {
            "likelihood": rng.random(row.sample.trained),
            "divergence": rng.integers(0, 2, row.sample.trained) * 0.25,
            "reference": -rng.random(row.sample.trained),
        }
        for row in rows[1:]
    ]
    rows = [rows[0], *(evolve(row, **others) for row, others in zip(rows[1:], added, strict=True))]
    found = record(Trainer(model, TrainerOptions()), rows)
    alone = rows[0].sample.trained
    assert not found.ce[:alone].any()
    assert not found.ref_kl[:alone].any()
    likelihood, weights, reference = (np.concatenate([one[name] for one in added]) for name in added[0])
    np.testing.assert_allclose(found.ce[alone:], likelihood, rtol=1e-6)
    np.testing.assert_allclose(found.ref_kl[alone:], weights, rtol=1e-6)
    np.testing.assert_allclose(found.reference_logprobs[alone:][weights > 0], reference[weights > 0], rtol=1e-6)
    assert np.isnan(found.reference_logprobs[alone:][weights == 0]).all()
    both = record(Trainer(make_model(), TrainerOptions(use_kl_loss=True, kl_loss_coef=0.5)), rows)
    np.testing.assert_allclose(both.ref_kl[alone:], weights + 0.5, rtol=1e-6)


def test_after_the_first_mini_batch_the_ratio_is_that_to_the_weights_that_the_step_began_with(make_model, make_groups):
    model, rows = make_model(), make_groups(4)
    options = TrainerOptions(lr=0.02, mini_batch_num=2, use_kl_loss=False, policy_loss=PpoClip(clip_ratio_c=1.3))
    before, halfway = copy.deepcopy(model), copy.deepcopy(model)
    Trainer(halfway, evolve(options, mini_batch_num=1)).update(rows[:8], 1)
    found = record(Trainer(model, options), rows)
    first = sum(row.sample.trained for row in rows[:8])
    old, new, advantages = plain_logprobs(before, rows)[0], plain_logprobs(halfway, rows)[0], spread(rows)
    np.testing.assert_allclose(found.logprobs, np.concatenate((old[:first], new[first:])), atol=1e-3)
    ratios = np.exp(new - old)
    ratios[:first] = 1
    np.testing.assert_allclose(found.ratios, ratios, rtol=1e-2)
    clips = np.where(advantages < 0, np.where(ratios > 1.3, 3, ratios < 0.8), 2 * (ratios > 1.2))
    assert set(clips.tolist()) == {0, 1, 2, 3}
    assert found.clips.tolist() == clips.tolist()
    assert math.isnan(found.reference_logprobs[0])


def test_the_weight_of_the_policy_gradient_has_the_importance_weight(make_model, make_groups):
    model, rows = make_model(), make_groups()
    sampler = np.concatenate([row.sample.logprobs[row.sample.mask] for row in rows])
    expected = np.minimum(np.exp(plain_logprobs(model, rows)[0] - sampler), 1.1) * spread(rows)
    found = record(Trainer(model, TrainerOptions(use_kl_loss=False, correction=Correction(rollout_is_threshold=1.1))), rows)
    np.testing.assert_allclose(found.rl, expected, rtol=1e-3, atol=1e-5)


def test_rows_without_a_gradient_have_no_values(make_model, make_groups):
    rows = make_groups()
    rows[1] = evolve(rows[1], advantage=0.0)
    found = record(Trainer(make_model(), TrainerOptions(use_kl_loss=False)), rows)
    assert found.lengths[1] == 0
    assert len(found.logprobs) == sum(row.sample.trained for row in rows if row is not rows[1])


def test_a_step_with_nothing_to_train_has_no_values(make_model, make_groups):
    trainer = Trainer(make_model(), TrainerOptions(use_kl_loss=False))
    assert record(trainer, make_groups()) is not None
    assert record(trainer, [evolve(row, advantage=0.0) for row in make_groups()], 2) is None


def test_values_are_taken_once(make_model, make_groups):
    trainer = Trainer(make_model(), TrainerOptions(use_kl_loss=False))
    assert record(trainer, make_groups()) is not None
    assert trainer.take_token_values() is None


def test_recording_changes_no_bit_of_the_weights(make_model, make_groups):
    recorded, plain = make_model(), make_model()
    for step in (1, 2):
        Trainer(recorded, TrainerOptions(lr=0.01, mini_batch_num=2)).update(make_groups(), step, record=True)
        Trainer(plain, TrainerOptions(lr=0.01, mini_batch_num=2)).update(make_groups(), step)
    for one, other in zip(recorded.parameters(), plain.parameters(), strict=True):
        assert torch.equal(one, other)
