"""Gradients of whole updates with losses of all sorts, against plain autograd through transformers in float64."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from attrs import evolve

from astuner.contract.protocols import LossTraits
from astuner.contract.schema import Sampling
from astuner.runs.training import Correction
from astuner_local.trainer.options import TrainerOptions
from astuner_local.trainer.trainer import Trainer

CLOSE = 1e-5


class SampleRatio:
    """-A times the mean ratio of the sample, as in sequence-level methods, without a clip."""

    def compute(self, tokens):
        mean = tokens.average(tokens.logp - tokens.old)
        return -tokens.advantages * mean.exp()


class Reinforce:
    traits = LossTraits(per_token=True)

    def compute(self, tokens):
        return -tokens.advantages * tokens.logp


def _moved(model, rows):
    """Return the rows as another sampler would have recorded them."""
    generator = np.random.default_rng(0)
    return [
        evolve(row, sample=evolve(row.sample, logprobs=generator.normal(-3.0, 0.5, len(row.sample.ids)).astype(np.float32)))
        for row in rows
    ]


def _expected(model, rows, compute):
    """Return the gradient of the mean over all trained tokens of what `compute(row, logp, entropy, sampler)` says of each."""
    exact = type(model)(model.config).double()
    exact.load_state_dict(model.state_dict())
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for row in rows:
        ids = torch.from_numpy(row.sample.ids.astype(np.int64))
        at = np.flatnonzero(row.sample.mask)
        logp = exact(input_ids=ids[None]).logits[0].log_softmax(-1)[at - 1]
        sampler = torch.from_numpy(row.sample.logprobs[at].astype(np.float64))
        total = total + compute(row, logp[range(len(at)), ids[at]], -(logp.exp() * logp).sum(-1), sampler).sum()
        tokens += len(at)
    (total / tokens).backward()
    return {name: p.grad for name, p in exact.named_parameters() if p.grad is not None}


@pytest.fixture(params=[None, 50], ids=["one piece", "in pieces"])
def pieces(request, make_model):
    """Options under which the logits are held all at once, or those of one or two tokens."""
    vocabulary = make_model().config.vocab_size
    return {} if request.param is None else {"logits_per_pass": 2 * vocabulary}


def test_tokens_of_a_sample_pull_each_other_however_the_logits_are_cut(make_model, make_groups, gradients, difference, pieces):
    model, rows = make_model(), make_groups()
    (found,) = gradients(model, rows, policy_loss=SampleRatio(), **pieces)

    def compute(row, logp, entropy, sampler):
        return -row.advantage * (logp - logp.detach()).mean().exp() * torch.ones(len(logp))

    assert difference(found, _expected(model, rows, compute)) < CLOSE


@pytest.mark.parametrize("share_prefixes", [True, False])
def test_weights_of_whole_samples(make_model, make_groups, gradients, difference, pieces, share_prefixes):
    model = make_model()
    rows = _moved(model, make_groups())
    correction = Correction(rollout_is="sequence", rollout_is_threshold=1.5, rollout_rs="seq_mean_k1", rollout_rs_threshold=3.0)
    given = {"policy_loss": Reinforce(), "correction": correction, "share_prefixes": share_prefixes, **pieces}
    (found,) = gradients(model, rows, **given)
    kept = []

    def compute(row, logp, entropy, sampler):
        apart = logp.detach() - sampler
        kept.append(bool(apart.mean().abs() <= np.log(3.0)))
        weight = apart.sum().exp().clamp(max=1.5) * kept[-1]
        return -row.advantage * weight * logp

    expected = _expected(model, rows, compute)
    assert set(kept) == {True, False}
    assert difference(found, expected) < CLOSE


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, -1), (0.7, -1), (0.7, 3)])
def test_the_entropy_of_what_was_sampled_from_is_part_of_the_loss(
    make_model, make_groups, gradients, difference, pieces, temperature, top_k
):
    model, rows = make_model(), make_groups()
    given = {"entropy_coeff": 0.3, "policy_loss": Reinforce(), "temperature": temperature, "top_k": top_k, **pieces}
    (found,) = gradients(model, rows, **given)
    exact = type(model)(model.config).double()
    exact.load_state_dict(model.state_dict())
    total, tokens = torch.zeros((), dtype=torch.float64), 0
    for row in rows:
        ids, at = torch.from_numpy(row.sample.ids.astype(np.int64)), np.flatnonzero(row.sample.mask)
        logits = exact(input_ids=ids[None]).logits[0, at - 1] / temperature
        if top_k > 0:
            left_out = torch.ones_like(logits, dtype=torch.bool)
            left_out.scatter_(1, logits.topk(top_k).indices, False).scatter_(1, ids[at][:, None], False)
            logits = logits.masked_fill(left_out, -1e9)
        logp = logits.log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1)
        total = total - (row.advantage * logp[range(len(at)), ids[at]] + 0.3 * entropy).sum()
        tokens += len(at)
    (total / tokens).backward()
    expected = {name: p.grad for name, p in exact.named_parameters() if p.grad is not None}
    assert difference(found, expected) < CLOSE


def test_rows_without_an_advantage_train_the_entropy_too_but_never_alone(make_model, make_groups):
    model, rows = make_model(), make_groups(groups=2)
    flat = [evolve(row, advantage=0.0) if row.group == rows[0].group else row for row in rows]
    trainer = Trainer(model, TrainerOptions(lr=1e-3, entropy_coeff=0.1))
    assert trainer.update(flat, 1)["signal/rows_trained"] == len(rows)
    nothing = [evolve(row, advantage=0.0) for row in rows]
    assert trainer.update(nothing, 2)["signal/updates"] == 0


def test_a_higher_weight_leaves_more_entropy(make_model, make_groups):
    left = {}
    for weight in (0.0, 1.0):
        trainer = Trainer(make_model(), TrainerOptions(lr=3e-3, policy_loss=Reinforce()))
        trainer.entropy_coeff = weight
        for step in range(1, 8):
            metrics = trainer.update(make_groups(), step)
        left[weight] = metrics["entropy/mean"]
    assert left[1.0] > left[0.0]


def test_a_correction_is_measured(make_model, make_groups):
    model = make_model()
    correction = Correction(rollout_is_threshold=1.5, rollout_rs="token_k3", rollout_rs_threshold=0.5)
    metrics = Trainer(model, TrainerOptions(correction=correction)).update(_moved(model, make_groups()), 1)
    assert 0 < metrics["correction/weight_mean"] < 1.5
    assert 0 < metrics["correction/bounded_mean"] < 1
    assert 0 < metrics["correction/rejected_mean"] < 1
    plain = Trainer(model, TrainerOptions()).update(make_groups(), 1)
    assert not [name for name in plain if name.startswith("correction/")]


def test_a_state_says_nothing_of_the_loss_object(make_model, make_groups, tmp_path):
    trainer = Trainer(make_model(), TrainerOptions(policy_loss=Reinforce(), correction=Correction(rollout_is_threshold=2.0)))
    trainer.update(make_groups(), 1)
    trainer.save(tmp_path)
    assert "policy_loss" not in json.loads((tmp_path / "trainer.json").read_text())["options"]
    again = Trainer(make_model(), TrainerOptions(policy_loss=Reinforce(), correction=Correction(rollout_is_threshold=2.0)))
    again.load(tmp_path)
    assert again.step == 1


@pytest.mark.parametrize("share_prefixes", [True, False])
@pytest.mark.parametrize("kind", ["low_var_kl", "mse"])
def test_what_an_estimator_adds_is_part_of_the_loss(make_model, make_groups, gradients, difference, pieces, kind, share_prefixes):
    model, rows = make_model(), make_groups()
    draws = np.random.default_rng(1)
    names = ("likelihood", "divergence", "reference")
    for number in range(1, len(rows)):  # the first has advantages alone, the last no advantage
        streams = {name: draws.normal(-3.0 if name == "reference" else 0.0, 1.0, rows[number].sample.trained) for name in names}
        rows[number] = evolve(rows[number], **streams)
    rows[-1] = evolve(rows[-1], advantage=0.0)
    given = {"policy_loss": Reinforce(), "kl_loss_type": kind, "share_prefixes": share_prefixes, **pieces}
    (found,) = gradients(model, rows, **given)

    def compute(row, logp, entropy, sampler):
        loss = -row.advantage * logp
        if not row.others:
            return loss
        likelihood, weight, reference = (torch.from_numpy(row.others[name]) for name in names)
        apart = logp - reference
        k3 = ((-apart).exp() - 1 + apart).clamp(max=10.0)
        return loss - likelihood * logp + weight * (k3 if kind == "low_var_kl" else 0.5 * apart.square())

    assert difference(found, _expected(model, rows, compute)) < CLOSE


def test_imitation_alone_makes_a_step_and_is_measured(make_model, make_groups):
    rows = [evolve(row, advantage=0.0) for row in make_groups()]
    trainer = Trainer(make_model(), TrainerOptions(lr=3e-3))
    assert "loss/likelihood" not in trainer.update(rows, 1)
    imitated = [evolve(row, likelihood=np.ones(row.sample.trained)) for row in rows]
    first, second = (trainer.update(imitated, step) for step in (2, 3))
    assert first["signal/updates"] == 1
    assert first["loss/likelihood"] > second["loss/likelihood"] > 0


def test_other_models_score_what_was_sampled(make_model, make_groups):
    trainer, other = Trainer(make_model(), TrainerOptions()), make_model()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(1.5)
    samples = [row.sample for row in make_groups()]
    expected = Trainer(other, TrainerOptions()).score(samples, Sampling(temperature=0.8))
    trainer.add_scorer("other", other)
    found = trainer.score(samples, Sampling(temperature=0.8), by="other")
    own = trainer.score(samples, Sampling(temperature=0.8))
    for ours, theirs, mine in zip(found, expected, own, strict=True):
        assert ours.tolist() == theirs.tolist() != mine.tolist()
    with pytest.raises(ValueError, match="no model 'third'"):
        trainer.score(samples, Sampling(), by="third")
