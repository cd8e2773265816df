"""The same rows on the same weights give the same loss, gradient and divergence, whether `local` trains them or Trinity."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from attrs import define, evolve
from made_up_groups import Control, groups_of, take_weights
from one_quickstart import one_quickstart

from astuner.contract.protocols import EstimatorTraits, Outcome, Streams, read_traits
from astuner.contract.schema import Group, Verdict
from astuner.episodes.judging.advantages import WeightedSample, compute_advantages
from astuner.episodes.judging.estimators import ReinforcePlusPlus
from astuner.runs.training.token_values import TokenValues
from astuner.settings.planning.plan import plan_run
from astuner.settings.planning.replan import write_plan
from astuner.shared.processes.process_environment import export_variables
from astuner.shared.services.ray import ADDRESS, ray, read_variables_again
from astuner.shared.services.running import ServiceHost, run_services

pytestmark = [pytest.mark.long, pytest.mark.skipif(find_spec("trinity") is None, reason="Trinity is not installed")]

AGGREGATIONS = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
SETTINGS = (
    "trainer_common.kl_loss_coef=0.1",
    "trainer_common.optim.lr_scheduler_type=constant",
    # A rate that is not the peak, which verl's own schedule would go to.
    "trainer_common.optim.lr_warmup_steps=100",
    "trainer_common.optim.lr=1.0e-3",
    "trainer_common.algorithm.rollout_is_threshold=2.0",
)
LOSSES = {
    "ppo_clip": ("trainer_common.clip_ratio_high=0.28",),
    "coupled": (
        f"trainer_common.algorithm.policy_loss={Path(__file__).parents[1] / 'support' / 'coupled_loss.py'}:Confident",
        "trainer_common.algorithm.rollout_is=sequence",
        "trainer_common.algorithm.rollout_is_threshold=1.5",
        "trainer_common.algorithm.rollout_rs=token_k1",
        "trainer_common.algorithm.rollout_rs_threshold=4.0",
        "trainer_common.algorithm.entropy_ctrl.coeff=0.05",
    ),
}
WORKERS = 2
"""So that what they average, and the rows that pad their parts, count too."""
SIZES = (2, 3, 4)
"""Episodes: an odd number of rows, which do not divide among the workers."""
EQUAL = ("loss/policy", "loss/kl", "kl/mean", "entropy/mean", "mismatch/ratio_mean", "mismatch/exp_abs_mean")


@define
class TrinityTrainer:
    """Trinity's trainer over verl's workers, in this process, fed as its sample strategy would feed it."""

    trainer: Any
    options: dict[str, Any]
    estimator: Any
    job: Path
    token_parts: Path

    def checkpoint(self) -> Path:
        """Save the model as it is now."""
        asyncio.run(self.trainer.save_checkpoint(block_until_saved=True, save_as_hf=True))
        return self.job / f"global_step_{self.trainer.train_step_num}" / "actor" / "huggingface"

    def update(self, groups: list[Group], step: int, mode: str) -> dict[str, float]:
        """Train on the rows of a step."""
        from astuner_trinity.explorer.experiences import build_experiences
        from astuner_trinity.explorer.whole_step import compare_step
        from astuner_trinity.reports import step_metrics
        from astuner_trinity.trainer.batches import prepare_rows, record_owners

        rows = [row for group in groups for row in build_experiences(group, self.estimator, by_agent=True, plan="plan")]
        compare_step(rows, self.estimator)
        rows, measured = prepare_rows(rows, step, workers=WORKERS, options={**self.options, "loss_agg_mode": mode})
        assert len(rows) % WORKERS == 0
        record_owners(self.token_parts, step, rows)
        found = asyncio.run(self.trainer.train_step(rows))
        weighed = compute_advantages(groups, self.estimator)
        return step_metrics(groups, weighed, {**found, **measured}, {}, kl_in_loss=True, every_row=True)

    def take_token_values(self, rows: list[WeightedSample], step: int) -> TokenValues:
        """Return what was recorded of the tokens of a step, as the driver takes it."""
        from astuner_trinity.token_parts import take_step
        from astuner_trinity.token_record import join_rows, number_rows

        taken = take_step(self.token_parts, step)
        assert taken is not None
        values = join_rows(taken[1], number_rows(rows), len(rows))
        assert values is not None
        return values


@pytest.fixture(scope="module", params=LOSSES)
def trainers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, TrinityTrainer]]:
    """Return both, on the model of the quickstart, with a loss of core and with one of the user's file."""
    from astuner_local.opening import open_learner as open_local
    from astuner_trinity.layout import Layout
    from astuner_trinity.native_configuration import Wanted, finish_configuration
    from astuner_trinity.process_environment import look_at_machine

    home = one_quickstart(tmp_path_factory)
    control: Any = Control()
    settings = (*SETTINGS, *LOSSES[request.param])
    plan = plan_run(home / "tune.yaml", settings, "local")
    run = evolve(plan.run_info(), directory=tmp_path_factory.mktemp("local"))
    local = open_local(run, plan.recipe, control, checkpoint=None, total_steps=100)

    plan = plan_run(home / "tune.yaml", (*settings, f"trainer_common.n_gpus_per_node={WORKERS + 1}"), "trinity")
    run = evolve(plan.run_info(), directory=tmp_path_factory.mktemp("trinity"))
    layout, estimator = Layout(run.directory), plan.recipe.make_estimator(run, control.hooks)
    machine, variables = look_at_machine()
    wanted = Wanted(
        layout=layout,
        model=run.config.model.path,
        total_steps=100,
        loss_agg_mode=read_traits(estimator, EstimatorTraits).default_loss_agg_mode,
        streams=True,
    )
    native = finish_configuration(run.native, machine, wanted)
    layout.config.write_text(yaml.safe_dump(native), encoding="utf-8")
    write_plan(run, layout.plan, schedule={})
    with ExitStack() as stack:
        stack.enter_context(export_variables(variables))
        for place in variables["PYTHONPATH"].split(os.pathsep):
            if place not in sys.path:
                sys.path.insert(0, place)
        from astuner_trinity_cpu import hooks

        hooks.install()
        where = ServiceHost(directory=run.directory, say=print, warn=print, stopped=lambda: False)
        stack.enter_context(run_services({"ray": ray(run)}, where))
        import ray as cluster
        from trinity.common.config import load_config
        from trinity.trainer.verl.trainer import VERLTrainer

        read_variables_again()
        cluster.init(address=os.environ[ADDRESS], namespace="same-signal", log_to_driver=False)
        stack.callback(cluster.shutdown)
        from astuner_trinity.trainer.padding import provide_padding

        # As our monitor does in the trainer's process.
        provide_padding()
        config = load_config(str(layout.config)).check_and_update()
        # As our launcher does for a stage.
        layout.token_parts.mkdir()
        trainer = VERLTrainer(config)
        asyncio.run(trainer.prepare())
        options, job = dict(config.algorithm.sample_strategy_args), Path(config.checkpoint_job_dir)
        yield local, TrinityTrainer(trainer, options, estimator, job, layout.token_parts)


@pytest.mark.parametrize("mode", AGGREGATIONS)
def test_loss_gradient_and_divergence_are_equal(trainers: tuple[Any, TrinityTrainer], mode: str) -> None:
    local, trinity = trainers
    take_weights(local, trinity.checkpoint())
    step = 1 + AGGREGATIONS.index(mode)
    groups = groups_of(step, local.renderer.tokenizer.vocab_size, SIZES)
    rows: list[WeightedSample] = compute_advantages(groups, local.estimator)
    local.trainer.options = evolve(local.trainer.options, loss_agg_mode=mode, mini_batch_num=1)
    expected, found = local.update(rows, step), trinity.update(groups, step, mode)
    assert found["grad/norm"] == pytest.approx(expected["grad/norm"], rel=1e-4)
    names = (*EQUAL, *(name for name in expected if name.startswith("correction/")))
    assert {name: found[name] for name in names} == pytest.approx({name: expected[name] for name in names}, rel=1e-4, abs=1e-6)
    assert found["lr"] == pytest.approx(expected["lr"])
    assert found["signal/updates"] == expected["signal/updates"] == 1
    # What the loss divides by is the policy that is trained.
    assert found["ratio/off_one_max"] <= 1e-6
    assert (found["clip/low"], found["clip/high"]) == (expected["clip/low"], expected["clip/high"]) == (0, 0)


def test_of_each_trained_token_the_same_is_recorded(trainers: tuple[Any, TrinityTrainer]) -> None:
    local, trinity = trainers
    take_weights(local, trinity.checkpoint())
    groups = groups_of(30, local.renderer.tokenizer.vocab_size, SIZES)
    rows = compute_advantages(groups, local.estimator)
    local.trainer.options = evolve(local.trainer.options, loss_agg_mode="token-mean", mini_batch_num=1)
    local.update(rows, 30)
    trinity.update(groups, 30, "token-mean")
    expected, found = local.take_token_values(), trinity.take_token_values(rows, 30)
    assert found.lengths.tolist() == expected.lengths.tolist() == [row.sample.trained for row in rows]
    assert found.clips.tolist() == expected.clips.tolist()
    for name in ("logprobs", "entropies", "reference_logprobs", "ratios", "rl", "ce", "ref_kl"):
        # Trinity's come in half precision.
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-3, atol=1e-4, err_msg=name)


def test_an_estimator_that_compares_the_whole_step_does_so_here_too(trainers: tuple[Any, TrinityTrainer]) -> None:
    local, trinity = trainers
    take_weights(local, trinity.checkpoint())
    groups = groups_of(40, local.renderer.tokenizer.vocab_size, SIZES)
    local.trainer.options = evolve(local.trainer.options, loss_agg_mode="token-mean", mini_batch_num=1)
    whole = evolve(trinity, estimator=ReinforcePlusPlus())
    expected = local.update(compute_advantages(groups, ReinforcePlusPlus()), 40)
    found = whole.update(groups, 40, "token-mean")
    names = ("grad/norm", *EQUAL)
    assert {name: found[name] for name in names} == pytest.approx({name: expected[name] for name in names}, rel=1e-4, abs=1e-6)


class Imitation:
    """Gives half of the episodes all that an estimator may, and the others only advantages."""

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True)

    def signal(self, groups: Sequence[Sequence[Outcome]]) -> list[list[Streams]]:
        """Return weights of each token that depend on the episode alone."""
        return [[self._weigh(one, place % 2 == 1) for place, one in enumerate(siblings)] for siblings in groups]

    def _weigh(self, one: Outcome, imitated: bool) -> Streams:
        random = np.random.default_rng(list(one.episode.id.encode()))
        advantages, likelihood = random.normal(size=(2, one.tokens))
        if not imitated:
            return Streams(advantages=advantages)
        return Streams(advantages=advantages, likelihood=likelihood, divergence=random.random(one.tokens), reference="sampler")


class ImitationOfStep(Imitation):
    """The same, asked once for the whole step."""

    traits = EstimatorTraits(gives_streams=True, beyond_advantages=True, group_relative=False)


@pytest.mark.parametrize(("estimator", "step"), [(Imitation(), 43), (ImitationOfStep(), 44)])
def test_likelihood_and_divergence_are_trained_alike(trainers: tuple[Any, TrinityTrainer], estimator: Any, step: int) -> None:
    local, trinity = trainers
    take_weights(local, trinity.checkpoint())
    groups = groups_of(step, local.renderer.tokenizer.vocab_size, SIZES)
    local.trainer.options = evolve(local.trainer.options, loss_agg_mode="token-mean", mini_batch_num=1)
    expected = local.update(compute_advantages(groups, estimator), step)
    found = evolve(trinity, estimator=estimator).update(groups, step, "token-mean")
    names = ("grad/norm", "loss/likelihood", *EQUAL)
    assert {name: found[name] for name in names} == pytest.approx({name: expected[name] for name in names}, rel=1e-4, abs=1e-6)


def test_a_step_without_gradient_moves_no_weight(trainers: tuple[Any, TrinityTrainer]) -> None:
    """Adam would move them by what it remembers of the steps before."""
    local, trinity = trainers
    take_weights(local, trinity.checkpoint())
    groups = [
        evolve(group, episodes=tuple(episode.with_verdict(Verdict(reward=0.5)) for episode in group.episodes))
        for group in groups_of(50, local.renderer.tokenizer.vocab_size, SIZES)
    ]
    same = groups_of(51, local.renderer.tokenizer.vocab_size, SIZES)
    # The options are those of a loss with a divergence, which alone is no signal.
    found = trinity.update(groups, 50, "token-mean")
    assert (found["signal/updates"], found["signal/nothing_to_train"]) == (0, 1)
    expected = local.update(compute_advantages(same, local.estimator), 51)
    assert trinity.update(same, 51, "token-mean")["kl/mean"] == pytest.approx(expected["kl/mean"], rel=1e-4)
