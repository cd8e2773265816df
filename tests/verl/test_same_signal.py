"""The same rows on the same weights give the same loss, gradient and divergence, whether `local` trains them or verl."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import asdict, evolve
from made_up_groups import Control, groups_of, take_weights
from one_quickstart import one_quickstart

from astuner.episodes.judging.advantages import WeightedSample, compute_advantages
from astuner.episodes.judging.estimators import ReinforcePlusPlus
from astuner.runs.training.token_recorder import locate_values
from astuner.settings.config.trees import put
from astuner.settings.planning.plan import plan_run

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed"),
    pytest.mark.xdist_group("same-signal"),  # both trainers are started once
]

AGGREGATIONS = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
SETTINGS = (
    "trainer_common.kl_loss_coef=0.1",
    "trainer_common.optim.lr_scheduler_type=constant",
    # A rate that is not the peak, which verl's own schedule would go back to after a mini-batch.
    "trainer_common.optim.lr_warmup_steps=100",
    "trainer_common.optim.lr=1.0e-3",
    "trainer_common.algorithm.rollout_is_threshold=2.0",
    "trainer_common.algorithm.use_kl_in_reward=true",
    "trainer_common.clip_ratio_high=0.28",
    # Two, so that what they average and the rows that pad their parts count too.
    "trainer_common.n_gpus_per_node=2",
)
SIZES = (3, 3, 3, 3)
EQUAL = ("loss/policy", "loss/kl", "kl/mean", "mismatch/ratio_mean", "mismatch/exp_abs_mean", "entropy/mean")


@pytest.fixture(scope="module")
def learners(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """Return both, on the model of the quickstart."""
    import ray  # noqa: F401  # as an agent's own code may, before there is a cluster with its key

    from astuner_local.opening import open_learner as open_local
    from astuner_verl.learner import open_learner as open_verl

    home = one_quickstart(tmp_path_factory)
    control: Any = Control()

    def planned(backbone: str) -> Any:
        plan = plan_run(home / "tune.yaml", SETTINGS, backbone)
        directory = tmp_path_factory.mktemp(backbone)
        return plan, evolve(plan.run_info(), directory=directory)

    plan, run = planned("local")
    local = open_local(run, plan.recipe, control, checkpoint=None, total_steps=100)
    plan, run = planned("verl")
    with open_verl(run, plan.recipe, control, checkpoint=None, total_steps=100) as verl:
        yield local, verl


def set_up(learners: tuple[Any, Any], mode: str, parts: int) -> None:
    """Let both train `parts` mini-batches, with the losses of tokens aggregated by `mode`."""
    from astuner_verl.alignment import ACTOR

    local, verl = learners
    local.trainer.options = evolve(local.trainer.options, loss_agg_mode=mode, mini_batch_num=parts)
    put(verl.native, f"{ACTOR}.loss_agg_mode", mode)
    common = verl.run.config.trainer_common
    verl.run = evolve(verl.run, config=evolve(verl.run.config, trainer_common=evolve(common, mini_batch_num=parts)))


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_loss_gradient_and_divergence_are_equal(learners: tuple[Any, Any], mode: str, parts: int, tmp_path: Path) -> None:
    local, verl = learners
    verl.save(tmp_path)
    take_weights(local, tmp_path)
    step = 1 + AGGREGATIONS.index(mode) * 2 + parts
    groups = groups_of(step, verl.renderer.tokenizer.vocab_size, SIZES)
    rows: list[WeightedSample] = compute_advantages(groups, verl.estimator)
    set_up(learners, mode, parts)

    samples = [row.sample for row in rows]
    divergences = [np.concatenate(learner.reference_kl(samples)) for learner in (verl, local)]
    assert divergences[0] == pytest.approx(divergences[1], rel=1e-4, abs=1e-4)
    expected, found = local.update(rows, step), verl.update(rows, step)
    # The second part of a step is computed with the weights after its first update, which may differ a little.
    close = 1e-4 if parts == 1 else 1e-3
    assert found["grad/norm"] == pytest.approx(expected["grad/norm"], rel=close)
    assert {name: found[name] for name in EQUAL} == pytest.approx({name: expected[name] for name in EQUAL}, rel=close, abs=1e-6)
    assert found["signal/updates"] == expected["signal/updates"] == parts
    assert (found["clip/low"], found["clip/high"]) == pytest.approx((expected["clip/low"], expected["clip/high"]), abs=2e-3)


@pytest.mark.parametrize("parts", [1, 2])
def test_what_is_recorded_of_each_token_is_equal(learners: tuple[Any, Any], parts: int, tmp_path: Path) -> None:
    local, verl = learners
    verl.save(tmp_path)
    take_weights(local, tmp_path)
    step = 40 + parts
    groups = groups_of(step, verl.renderer.tokenizer.vocab_size, SIZES)
    rows = compute_advantages(groups, verl.estimator)
    set_up(learners, "token-mean", parts)
    for learner in learners:
        learner.update(rows, step)
    expected, found = (locate_values(step, groups, rows, learner.take_token_values()) for learner in learners)
    assert len(found.columns.logprobs) == sum(row.sample.trained for row in rows)
    for name in ("episodes", "agents"):
        assert getattr(found, name) == getattr(expected, name)
    for name, values in asdict(expected.stretches, recurse=False).items():
        np.testing.assert_array_equal(getattr(found.stretches, name), values, err_msg=name)
    for name, values in asdict(expected.columns, recurse=False).items():
        # Half precision, and after the first update the weights may differ a little.
        close = 0 if name in ("advantages", "ce", "ref_kl", "clips") else 2e-3
        np.testing.assert_allclose(getattr(found.columns, name), values, rtol=close, atol=close, err_msg=name)
    assert not np.isnan(expected.columns.reference_logprobs).any()


def test_tokens_of_one_row_may_have_different_advantages(learners: tuple[Any, Any], tmp_path: Path) -> None:
    local, verl = learners
    verl.save(tmp_path)
    take_weights(local, tmp_path)
    groups = groups_of(60, verl.renderer.tokenizer.vocab_size, SIZES)
    owners = {(s.episode_id, s.agent): 0 for one in groups for episode in one.episodes for s in episode.samples}
    for one in groups:
        for episode in one.episodes:
            for sample in episode.samples:
                owners[sample.episode_id, sample.agent] += sample.trained
    penalties = {owner: np.linspace(0.0, 0.1, count) for owner, count in owners.items()}
    rows = compute_advantages(groups, ReinforcePlusPlus(), penalties)
    assert any(row.token_advantages is not None for row in rows)
    set_up(learners, "token-mean", 1)
    expected, found = local.update(rows, 60), verl.update(rows, 60)
    names = ("grad/norm", *EQUAL)
    assert {name: found[name] for name in names} == pytest.approx({name: expected[name] for name in names}, rel=1e-4, abs=1e-6)


def test_a_divergence_without_any_advantage_moves_no_weight(learners: tuple[Any, Any], tmp_path: Path) -> None:
    _, verl = learners
    groups = groups_of(70, verl.renderer.tokenizer.vocab_size, SIZES)
    rows = [evolve(row, advantage=0.0) for row in compute_advantages(groups, verl.estimator)]
    verl.save(tmp_path / "before")
    found = verl.update(rows, 70)
    verl.save(tmp_path / "after")
    assert (found["signal/updates"], found["signal/nothing_to_train"]) == (0, 1)
    before, after = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("before", "after"))
    assert before == after


def test_another_model_gives_the_same_scores(learners: tuple[Any, Any], tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from astuner.contract.schema import Sampling
    from astuner_local.trainer.model_io import load_model

    local, verl = learners
    teacher = AutoModelForCausalLM.from_pretrained(verl.run.config.model.path, dtype=torch.float32)
    torch.manual_seed(0)
    for weights in teacher.parameters():
        weights.data += 0.2 * weights.std() * torch.randn_like(weights)
    teacher.save_pretrained(tmp_path / "teacher")
    local.trainer.add_scorer("teacher", load_model(str(tmp_path / "teacher"), "float32", device="cpu"))
    verl.watch.get(verl.host.add_scorer.remote(str(tmp_path / "teacher")), "loading")
    verl.scorers = {"teacher": str(tmp_path / "teacher")}
    groups = groups_of(80, verl.renderer.tokenizer.vocab_size, SIZES)
    samples = [sample for group in groups for episode in group.episodes for sample in episode.samples]
    samples[1] = evolve(samples[1], mask=np.zeros_like(samples[1].mask))
    sampling = Sampling(temperature=verl.run.config.rollout.temperature)
    expected, found = (learner.score_with("teacher", samples, sampling) for learner in (local, verl))
    assert [len(one) for one in found] == [sample.trained for sample in samples]
    assert np.concatenate(found) == pytest.approx(np.concatenate(expected), abs=1e-4)
    # It is the other model that was asked.
    assert np.abs(np.concatenate(expected) - np.concatenate(local.score(samples, sampling))).max() > 0.1


def test_advantages_are_those_of_the_rewards_for_both(learners: tuple[Any, Any]) -> None:
    local, verl = learners
    groups = groups_of(99, verl.renderer.tokenizer.vocab_size, SIZES)
    expected = []
    for group in groups:
        rewards = np.array([episode.reward for episode in group.episodes])
        for episode, advantage in zip(group.episodes, (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6), strict=True):
            expected += [advantage] * len(episode.samples)
    for learner in (local, verl):
        assert [row.advantage for row in compute_advantages(groups, learner.estimator)] == pytest.approx(expected, abs=1e-6)
