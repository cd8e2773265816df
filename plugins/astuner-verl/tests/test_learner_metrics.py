"""What the learner makes of the measurements of verl's workers, without verl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.errors import ConfigError
from astuner.contract.schema import Sample
from astuner.episodes.judging.advantages import WeightedSample
from astuner.runs.inspection.metric_names import list_metric_names
from astuner.runs.training.signal import CORRECTION_SUMS, TOKEN_SUMS
from astuner.settings.config.loading import load_config
from astuner.settings.config.trainer import TokenRecord
from astuner_devkit.run_infos import run_info
from astuner_verl.learner import VerlLearner, open_learner
from astuner_verl.loss import PREFIX
from astuner_verl.token_record import PassRecord


class Remote:
    """A method of an actor, which answers at once."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer
        self.calls: list[Any] = []

    def remote(self, *arguments: Any) -> Any:
        self.calls.append(arguments)
        return self._answer


class Host:
    """The trainer, with one mini-batch in which every sum is 1."""

    prepare = Remote(1)
    train = Remote(
        {"grad_norm": 1.0, **{f"{PREFIX}{name}": 1.0 for name in (*TOKEN_SUMS, *CORRECTION_SUMS, "abs_max", "computed")}}
    )
    take_timings = Remote({})
    take_token_records = Remote(
        [PassRecord(numbers=np.array([1]), lengths=np.array([2]), stack=np.arange(16, dtype=np.float32).reshape(8, 2))]
    )


class Watch:
    """Waits for nothing."""

    def get(self, answer: Any, what: str) -> Any:
        return answer


def make_row() -> WeightedSample:
    ids, mask = np.arange(4, dtype=np.int32), np.array([False, False, True, True])
    sample = Sample(
        episode_id="e", task_id="t", repeat=0, agent="agent", ids=ids, mask=mask, logprobs=-mask.astype(np.float32), calls=(0,)
    )
    return WeightedSample(sample=sample, advantage=1.0, group="t")


ROWS = [evolve(make_row(), advantage=0.0), make_row()]


@pytest.fixture
def learner(native: Callable[..., Any], tmp_path: Path) -> VerlLearner:
    tree: Any = native().tree
    tree["actor_rollout_ref"]["actor"] |= {"calculate_entropy": True, "loss_agg_mode": "token-mean"}
    nothing: Any = None
    run: Any = {"watch": Watch(), "client": nothing, "renderer": nothing, "estimator": nothing, "total_steps": 1}
    return VerlLearner(run=run_info(tmp_path), native=tree, host=Host(), **run)


def test_an_update_has_the_metrics_that_all_backbones_share(learner: VerlLearner) -> None:
    assert {metric.name for metric in list_metric_names() if metric.shared == "updates"} - set(learner.update(ROWS, 1)) == set()


def test_the_values_of_trained_tokens_are_taken_once(learner: VerlLearner) -> None:
    learner.update(ROWS, 1)
    values = learner.take_token_values()
    assert values is not None
    assert (values.lengths.tolist(), values.logprobs.tolist()) == ([0, 2], [0, 1])
    assert learner.take_token_values() is None


def test_nothing_is_recorded_if_that_is_off(learner: VerlLearner) -> None:
    common = learner.run.config.trainer_common
    config = evolve(learner.run.config, trainer_common=evolve(common, token_record=TokenRecord(enable=False)))
    learner.run = evolve(learner.run, config=config)
    learner.update(ROWS, 1)
    assert learner.take_token_values() is None


def test_the_weight_of_the_entropy_goes_with_the_step(learner: VerlLearner) -> None:
    learner.native["actor_rollout_ref"]["actor"]["use_kl_loss"] = False
    sent = []
    for weight in (0.0, 0.3):
        learner.set_entropy_coeff(weight)
        learner.update(ROWS, 1)
        (update,) = learner.host.prepare.calls[-1]
        sent.append((update.entropy_coeff, sum(map(len, update.mini_batches))))
    # With an entropy in the loss a row without an advantage has a gradient too.
    assert sent == [(0.0, 1), (0.3, 2)]


def test_what_a_correction_measures_becomes_metrics(learner: VerlLearner) -> None:
    found = learner.update(ROWS, 1)
    assert {f"{name}_mean": found[f"{name}_mean"] for name in CORRECTION_SUMS} == {
        f"{name}_mean": 1.0 for name in CORRECTION_SUMS
    }


@pytest.mark.parametrize("key", ["coeff=0.1", "target=0.5"])
def test_an_entropy_that_counts_and_is_not_computed_is_refused(native: Callable[..., Any], tmp_path: Path, key: str) -> None:
    override = f"trainer_common.algorithm.entropy_ctrl.{key}"
    tree = native(text="verl: {actor_rollout_ref: {actor: {calculate_entropy: false}}}\n").tree
    loaded = load_config(tmp_path / "run.yaml", (override,))
    run, nothing = run_info(tmp_path, config=loaded.config, native=tree), cast("Any", None)
    opened = open_learner(run, cast("Any", Recipe()), cast("Any", Control()), checkpoint=nothing, total_steps=1)
    with pytest.raises(ConfigError, match=r"verl\.actor_rollout_ref\.actor\.calculate_entropy: false, and"), opened:
        raise AssertionError("it was opened")


class Recipe:
    """Makes nothing."""

    def make_estimator(self, run: Any, hooks: Any) -> None:
        """Nothing to do."""


class Control:
    """Has no hooks."""

    hooks = None
