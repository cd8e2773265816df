"""The same rows on the same weights give the same loss, gradient and divergence, whether `local` trains them or verl."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from attrs import evolve
from made_up_groups import Control, groups_of, take_weights
from one_quickstart import one_quickstart

from astuner.config.trees import put
from astuner.judging.advantages import WeightedSample, compute_advantages
from astuner.planning.plan import plan_run

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

    from astuner_local.learner import open_learner as open_local
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


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_loss_gradient_and_divergence_are_equal(learners: tuple[Any, Any], mode: str, parts: int, tmp_path: Path) -> None:
    from astuner_verl.alignment import ACTOR

    local, verl = learners
    verl.save(tmp_path)
    take_weights(local, tmp_path)
    step = 1 + AGGREGATIONS.index(mode) * 2 + parts
    groups = groups_of(step, verl.renderer.tokenizer.vocab_size, SIZES)
    rows: list[WeightedSample] = compute_advantages(groups, verl.estimator)
    local.trainer.options = evolve(local.trainer.options, loss_agg_mode=mode, mini_batch_num=parts)
    put(verl.native, f"{ACTOR}.loss_agg_mode", mode)
    common = verl.run.config.trainer_common
    verl.run = evolve(verl.run, config=evolve(verl.run.config, trainer_common=evolve(common, mini_batch_num=parts)))

    samples = [row.sample for row in rows]
    assert verl.reference_kl(samples) == pytest.approx(local.reference_kl(samples), rel=1e-4, abs=1e-4)
    expected, found = local.update(rows, step), verl.update(rows, step)
    # The second part of a step is computed with the weights after its first update, which may differ a little.
    close = 1e-4 if parts == 1 else 1e-3
    assert found["grad/norm"] == pytest.approx(expected["grad/norm"], rel=close)
    assert {name: found[name] for name in EQUAL} == pytest.approx({name: expected[name] for name in EQUAL}, rel=close, abs=1e-6)
    assert found["signal/updates"] == expected["signal/updates"] == parts
    assert (found["clip/low"], found["clip/high"]) == pytest.approx((expected["clip/low"], expected["clip/high"]), abs=2e-3)


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
