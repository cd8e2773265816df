"""The loss of a run, as each worker of the trainer makes it from the plan."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("trinity")

from attrs import evolve

from astuner.contract.errors import ConfigError
from astuner.contract.protocols import EstimatorTraits
from astuner.runs.training import LossOptions, PpoClip
from astuner.settings.planning.plan import plan_run
from astuner.settings.planning.replan import write_plan
from astuner_trinity.rows import STREAMS
from astuner_trinity.session import check_estimator
from astuner_trinity.trainer.loss import WeighedLoss

CONF = """
astuner:
  backbone: trinity
  model: {path: org/model}
  rollout: {user_workflow: './agent.py:Agent'}
  task_reader: {type: dataset_file, dataset_file: {training: {file_path: tasks.jsonl}}}
  task_judge: {judge_type: customized_protocol, judge_protocol: './agent.py:Judge'}
"""
AGENT = """
from astuner import Workflow


class Agent(Workflow):
    async def execute(self, workflow_task, tuner):
        raise NotImplementedError


class Judge:
    def compute_reward(self, workflow_task, workflow_output):
        raise NotImplementedError


class Reinforce:
    def compute(self, tokens):
        return -tokens.advantages * tokens.logp
"""


@pytest.fixture
def loss(tmp_path: Path) -> Callable[..., WeighedLoss]:
    """Return a function from settings to the loss as it arrives in a worker."""
    (tmp_path / "run.yaml").write_text(CONF)
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "tasks.jsonl").write_text("{}")

    def send(*settings: str, **arguments: Any) -> WeighedLoss:
        overrides = [f"trainer_common.{setting}" for setting in settings]
        run = evolve(plan_run(tmp_path / "run.yaml", overrides, "trinity").run_info(), directory=tmp_path / "run")
        write_plan(run, tmp_path / "run" / "trinity" / "plan.json")
        made = WeighedLoss(plan=str(tmp_path / "run" / "trinity" / "plan.json"), **arguments)
        received: WeighedLoss = pickle.loads(pickle.dumps(made))
        return received

    return send


def test_the_bounds_and_the_correction_are_those_of_the_run(loss: Callable[..., WeighedLoss]) -> None:
    found = loss(
        "clip_ratio_high=0.28",
        "algorithm.rollout_is=sequence",
        "algorithm.rollout_is_threshold=2",
        "algorithm.rollout_rs=seq_max_k3",
        kl_loss_coef=0.1,
    )
    options = found.options
    assert options.policy_loss == PpoClip(clip_ratio_high=0.28)
    assert (options.correction.rollout_is, options.correction.rollout_rs) == ("sequence", "seq_max_k3")
    assert options.kl_loss_coef == 0.1
    assert found.options.policy_loss is options.policy_loss


def test_a_loss_may_be_of_the_users_file(loss: Callable[..., WeighedLoss]) -> None:
    found = loss("algorithm.policy_loss=./agent.py:Reinforce").options.policy_loss
    assert type(found).__name__ == "Reinforce"


@pytest.mark.parametrize(
    ("traits", "said"),
    [
        ({"scored_by": ("teacher",)}, "loads no model that scores"),
        ({"keeps_state": True}, "keeps no state of an estimator"),
        ({"wants_greedy": True}, "plays no greedy episode to compare with"),
    ],
)
def test_an_estimator_that_needs_more_than_a_step_is_refused_by_name(traits: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=f"'mine' needs more than the episodes of a step, and the backbone 'trinity' {said}"):
        check_estimator(SimpleNamespace(traits=EstimatorTraits(gives_streams=True, **traits)), "mine")  # type: ignore[arg-type]


@pytest.mark.parametrize("traits", [{}, {"group_relative": False}, {"beyond_advantages": True}])
def test_an_estimator_of_streams_is_taken(traits: dict[str, Any]) -> None:
    check_estimator(SimpleNamespace(traits=EstimatorTraits(gives_streams=True, **traits)), "mine")  # type: ignore[arg-type]


def test_without_a_plan_it_is_that_of_ppo() -> None:
    assert WeighedLoss(kl_loss_coef=0.1).options == LossOptions(policy_loss=PpoClip(), kl_loss_coef=0.1)


@pytest.mark.parametrize(("coefficient", "asked"), [(0.1, True), (0.0, False)])
def test_the_references_probabilities_are_asked_for_where_they_count(coefficient: float, asked: bool) -> None:
    assert ("ref_log_prob" in WeighedLoss(kl_loss_coef=coefficient).select_keys) == asked


@pytest.mark.parametrize("given", [True, False])
def test_the_columns_of_an_estimator_are_asked_for_where_it_adds_to_the_loss(given: bool) -> None:
    assert [name in WeighedLoss(streams=given).select_keys for name in STREAMS] == [given] * 3
