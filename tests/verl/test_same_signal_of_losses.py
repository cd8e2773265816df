"""A loss of whole samples, corrections, an entropy, imitation: the same gradient, whether `local` minimises it or verl."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from made_up_groups import Control, groups_of, take_weights
from one_quickstart import one_quickstart

from astuner.contract.schema import Sampling
from astuner.episodes.judging.advantages import WeightedSample, compute_advantages
from astuner.settings.planning.plan import plan_run

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(find_spec("verl") is None, reason="verl is not installed"),
    pytest.mark.xdist_group("same-signal"),
]

LOSS = """
class WholeSamples:
    def compute(self, tokens):
        ratio = (tokens.logp - tokens.logp.detach() + tokens.average(tokens.log_ratio()).detach()).exp()
        return -(ratio * tokens.advantages).minimum(ratio.clamp(0.997, 1.004) * tokens.advantages)
"""
SETTINGS = (
    "trainer_common.kl_loss_coef=0.1",
    "trainer_common.optim.lr_scheduler_type=constant",
    "trainer_common.optim.lr=1.0e-3",
    "trainer_common.mini_batch_num=2",
    "trainer_common.n_gpus_per_node=2",
    "trainer_common.algorithm.rollout_is=sequence",
    "trainer_common.algorithm.rollout_is_threshold=1.2",
    "trainer_common.algorithm.rollout_rs=seq_mean_k2",
    "trainer_common.algorithm.rollout_rs_threshold=0.1",
    "trainer_common.algorithm.entropy_ctrl.coeff=0.02",
)
EQUAL = (
    *("loss/policy", "loss/kl", "kl/mean", "entropy/mean", "grad/norm", "clip/low", "clip/high"),
    *("correction/weight_mean", "correction/bounded_mean", "correction/rejected_mean"),
)
SIZES = (3, 3, 3, 3)


def sample_nearly(local: Any, rows: Sequence[WeightedSample], step: int) -> list[WeightedSample]:
    """Return rows as a sampler would have them whose log-probabilities are nearly those of the trainer."""
    random, found = np.random.default_rng(step), []
    scores = local.score([row.sample for row in rows], Sampling())
    for row, score in zip(rows, scores, strict=True):
        logprobs = row.sample.logprobs.copy()
        # A few samples are further off than others.
        logprobs[row.sample.mask] = score + random.normal(0, random.choice([0.1, 0.6]), len(score))
        found.append(evolve(row, sample=evolve(row.sample, logprobs=logprobs)))
    return found


def add_streams(rows: Sequence[WeightedSample], step: int) -> list[WeightedSample]:
    """Return rows with what an estimator may add to their advantages; the first ones have none of it, as may happen."""
    random = np.random.default_rng(step)
    return [
        row
        if number < 2
        else evolve(
            row,
            likelihood=random.normal(0.3, 1, row.sample.trained),
            divergence=random.random(row.sample.trained),
            reference=random.normal(-3, 1, row.sample.trained),
        )
        for number, row in enumerate(rows)
    ]


def test_loss_and_gradient_are_equal(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    import ray  # noqa: F401  # as an agent's own code may, before there is a cluster with its key

    from astuner_local.opening import open_learner as open_local
    from astuner_verl.learner import open_learner as open_verl

    home = one_quickstart(tmp_path_factory)
    control: Any = Control()
    (tmp_path / "whole_samples.py").write_text(LOSS)
    settings = (*SETTINGS, f"trainer_common.algorithm.policy_loss={tmp_path / 'whole_samples.py'}:WholeSamples")

    def plan(backbone: str) -> Any:
        planned = plan_run(home / "tune.yaml", settings, backbone)
        return planned, evolve(planned.run_info(), directory=tmp_path_factory.mktemp(backbone))

    planned, run = plan("local")
    local = open_local(run, planned.recipe, control, checkpoint=None, total_steps=100)
    planned, run = plan("verl")
    clipped = 0.0
    with open_verl(run, planned.recipe, control, checkpoint=None, total_steps=100) as verl:
        for step, weight in enumerate((None, 0.0, 0.5), start=1):
            verl.save(tmp_path / str(step))
            take_weights(local, tmp_path / str(step))
            groups = groups_of(step, verl.renderer.tokenizer.vocab_size, SIZES)
            rows = sample_nearly(local, compute_advantages(groups, verl.estimator), step)
            if step == 3:
                rows = add_streams(rows, step)
            if weight is not None:
                for learner in (local, verl):
                    learner.set_entropy_coeff(weight)
            expected, found = local.update(rows, step), verl.update(rows, step)
            names = (*EQUAL, "loss/likelihood") if step == 3 else EQUAL
            # The second mini-batch is computed with the weights after the first, which may differ a little.
            assert {name: found[name] for name in names} == pytest.approx(
                {name: expected[name] for name in names}, rel=1e-3, abs=1e-6
            )
            assert 0 < found["correction/rejected_mean"] < 1
            assert 0 < found["correction/bounded_mean"] < 1
            clipped += found["clip/low"] + found["clip/high"]
    assert clipped > 0
