"""Keys that depend on what the chosen components say of themselves, whoever wrote these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from astuner.contract.errors import ConfigError, Problem
from astuner.settings.planning.plan import Plan, plan_run
from astuner_devkit.project import write_project

PACKAGE = """
import attrs

from astuner.contract.protocols import BackboneTraits, EngineTraits, EstimatorTraits


class Trainer:
    name = "acme"
    traits = BackboneTraits(honours=("*",))


class Runners(Trainer):
    traits = BackboneTraits(honours=("*",), inapplicable={"rollout.players": "its runners are the workers"})


class Median:
    def advantages(self, groups):
        return [rewards - rewards.mean() for rewards in groups]


class WholeStep(Median):
    traits = EstimatorTraits(group_relative=False)


class Tasks:
    def read(self, split):
        return iter(())


class Reinforce:
    @attrs.frozen
    class Options:
        scale: float = 1.0

    def __init__(self, options):
        self.options = options

    def compute(self, tokens):
        return -self.options.scale * tokens.advantages * tokens.logp


class Hardest:
    @attrs.frozen
    class Options:
        share: float = 1.0

    def __init__(self, options):
        self.options = options

    def choose(self, draw, state):
        return draw.tasks[: draw.count]

    def observe(self, played, state):
        return state


class Remote:
    traits = EngineTraits(names_own_model=True)
"""

Planned = Callable[..., Plan]


@pytest.fixture
def plan(fake_distribution: Callable[..., Path], tmp_path: Path) -> Planned:
    def planned(backbone: str = "acme", *, trains: bool = True, **settings: Mapping[str, Any]) -> Plan:
        fake_distribution(
            "acme-median",
            files={"acme_median.py": PACKAGE},
            entry_points={
                "astuner.backbones": {"acme": "acme_median:Trainer", "runners": "acme_median:Runners"},
                "astuner.estimators": {"median": "acme_median:Median", "whole_step": "acme_median:WholeStep"},
                "astuner.engines": {"remote": "acme_median:Remote"},
                "astuner.losses": {"reinforce": "acme_median:Reinforce"},
                "astuner.readers": {"tasks": "acme_median:Tasks"},
                "astuner.samplers": {"hardest": "acme_median:Hardest"},
            },
            requires=["astuner-core>=0.2,<0.3"],
        )
        return plan_run(write_project(tmp_path, backbone=backbone, settings=settings), trains=trains)

    return planned


@pytest.fixture
def problem(plan: Planned) -> Callable[..., Problem]:
    def find(*arguments: Any, **settings: Any) -> Problem:
        with pytest.raises(ConfigError) as caught:
            plan(*arguments, **settings)
        (found,) = caught.value.problems
        return found

    return find


def with_estimator(name: str) -> dict[str, Any]:
    return {"rollout": {"num_repeat": 1}, "trainer_common": {"algorithm": {"adv_estimator": name}}}


@pytest.mark.parametrize("estimator", ["grpo", "rloo", "dr_grpo", "median", "acme-median/median"])
def test_one_episode_per_task_gives_a_group_relative_estimator_no_signal(problem: Callable[..., Problem], estimator: str) -> None:
    found = problem(**with_estimator(estimator))
    assert found.key == "astuner.rollout.num_repeat"
    assert found.message.startswith(f"with one episode per task, {estimator.rpartition('/')[2]} has nothing to compare")


@pytest.mark.parametrize("estimator", ["reinforce_plus_plus", "whole_step"])
def test_one_episode_per_task_is_fine_where_all_of_a_step_are_compared(plan: Planned, estimator: str) -> None:
    assert plan(**with_estimator(estimator)).loaded.config.rollout.num_repeat == 1


def test_one_episode_per_task_is_fine_where_nothing_is_trained(plan: Planned) -> None:
    assert plan("debug", rollout={"num_repeat": 1}).loaded.config.rollout.num_repeat == 1
    assert plan(trains=False, **with_estimator("median")).loaded.config.rollout.num_repeat == 1


def test_a_model_is_required_and_the_remedy_named(problem: Callable[..., Problem]) -> None:
    found = problem("acme", model={"path": ""})
    assert found.key == "astuner.model.path"
    assert "Qwen/Qwen2.5-0.5B-Instruct" in found.message


def test_a_model_of_another_program_needs_no_path_here(plan: Planned) -> None:
    settings = {"model": {"path": ""}, "rollout": {"name": "remote"}}
    assert plan("debug", **settings).loaded.config.model.path == ""


def test_a_backbone_that_trains_needs_one_whatever_the_engine(problem: Callable[..., Problem]) -> None:
    assert problem(model={"path": ""}, rollout={"name": "remote"}).key == "astuner.model.path"


def test_the_files_that_a_reader_names_must_exist(problem: Callable[..., Problem], tmp_path: Path) -> None:
    (tmp_path / "gone.jsom").touch()
    reader = {"dataset_file": {"validation": {"file_path": "gone.json"}}}
    found = problem("debug", task_reader=reader)
    assert found.key == "astuner.task_reader.dataset_file.validation.file_path"
    assert str(tmp_path / "gone.json") in found.message
    assert found.suggestion == "gone.jsom"


def test_files_of_a_reader_that_is_not_chosen_need_not_exist(plan: Planned) -> None:
    reader = {"type": "tasks", "dataset_file": {"validation": {"file_path": "gone.json"}}}
    assert plan("debug", task_reader=reader).reader.candidate.name == "tasks"


WITHOUT_POOL = {"plugins": {"disabled": ["rollout_workers"]}, "rollout": {"players": 3}}
"""As where nothing opens several workers."""


@pytest.mark.parametrize("backbone", ["acme", "debug"])
def test_several_workers_without_their_package_are_refused_with_what_to_install(
    problem: Callable[..., Problem], backbone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("astuner.episodes.rollout.worker_count.is_installed", lambda package: False)
    found = problem(backbone, **WITHOUT_POOL)
    assert (found.key, found.line is None) == ("astuner.rollout.players", False)
    assert found.message.startswith("3 rollout workers come with astuner-")
    assert found.message.partition(", which is not installed: ")[2].startswith("pip install ")


def test_several_workers_that_are_disabled_are_refused(problem: Callable[..., Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astuner.episodes.rollout.worker_count.is_installed", lambda package: True)
    assert problem(**WITHOUT_POOL).message.endswith(", which plugins.disabled leaves out")


@pytest.mark.parametrize(("backbone", "players"), [("acme", 1), ("acme", "auto"), ("runners", 3)])
def test_one_worker_needs_no_package_nor_does_a_backbone_with_workers_of_its_own(
    plan: Planned, backbone: str, players: int | str
) -> None:
    assert plan(backbone, **{**WITHOUT_POOL, "rollout": {"players": players}}).loaded.config.rollout.players == players


def with_loss(**settings: Any) -> dict[str, Any]:
    return {"trainer_common": {"algorithm": settings}}


def test_a_loss_has_its_options_from_the_section_of_the_algorithm(plan: Planned) -> None:
    found = plan(**with_loss(policy_loss="reinforce", reinforce={"scale": 2.0})).recipe.policy_loss
    assert (found.candidate.name, found.options.scale) == ("reinforce", 2.0)
    assert plan().recipe.policy_loss.candidate.name == "ppo_clip"


def test_a_misspelt_loss_and_a_misspelt_option_of_one_are_reported_with_their_places(problem: Callable[..., Problem]) -> None:
    found = problem(**with_loss(policy_loss="reinforse"))
    assert (found.key, found.suggestion) == ("astuner.trainer_common.algorithm.policy_loss", "reinforce")
    found = problem(**with_loss(policy_loss="reinforce", reinforce={"scal": 2.0}))
    assert (found.key, found.suggestion) == ("astuner.trainer_common.algorithm.reinforce.scal", "scale")


def test_bounds_of_another_loss_are_refused_with_where_its_own_are_set(problem: Callable[..., Problem]) -> None:
    settings = {"trainer_common": {"clip_ratio_high": 0.3, "algorithm": {"policy_loss": "reinforce"}}}
    found = problem(**settings)
    assert found.key == "astuner.trainer_common.clip_ratio_high"
    assert found.message == "belongs to the loss ppo_clip. Set trainer_common.algorithm.reinforce instead."


@pytest.mark.parametrize(
    ("settings", "key", "message"),
    [
        ({"rollout_is_lower": 0.5}, "rollout_is_lower", "has no effect without rollout_is_threshold."),
        ({"rollout_is_lower": 2.0, "rollout_is_threshold": 2.0}, "rollout_is_lower", "must be below rollout_is_threshold (2): 2"),
        ({"rollout_is": "sequence"}, "rollout_is", "has no effect without rollout_is_threshold."),
        ({"rollout_rs_threshold": 2.0}, "rollout_rs_threshold", "has no effect without rollout_rs."),
        ({"entropy_ctrl": {"delta": 0.1}}, "entropy_ctrl.delta", "has no effect without entropy_ctrl.target."),
        ({"rollout_rs_lower": 0.5}, "rollout_rs_lower", "has no effect without rollout_rs: token_k1, seq_sum_k1 or seq_mean_k1."),
        (
            {"rollout_rs": "seq_mean_k3", "rollout_rs_lower": 0.5},
            "rollout_rs_lower",
            "has no effect without rollout_rs: token_k1, seq_sum_k1 or seq_mean_k1.",
        ),
        (
            {"rollout_rs": "token_k1", "rollout_rs_threshold": 1.5, "rollout_rs_lower": 1.6},
            "rollout_rs_lower",
            "must be below rollout_rs_threshold (1.5): 1.6",
        ),
    ],
)
def test_bounds_without_effect_or_order_are_refused(
    problem: Callable[..., Problem], settings: Mapping[str, Any], key: str, message: str
) -> None:
    found = problem(**with_loss(**settings))
    assert (found.key, found.message) == (f"astuner.trainer_common.algorithm.{key}", message)


def test_a_sampler_has_its_options_from_the_section_of_the_data(plan: Planned) -> None:
    found = plan(data={"train_batch_size": 1, "sampler": "hardest", "hardest": {"share": 0.5}}).recipe.sampler
    assert (found.candidate.name, found.options.share) == ("hardest", 0.5)
    assert plan().recipe.sampler.candidate.name == "uniform"


@pytest.mark.parametrize(
    ("data", "key", "suggestion"),
    [
        ({"sampler": "hardst"}, "sampler", "hardest"),
        ({"sampler": "hardest", "hardest": {"shar": 0.5}}, "hardest.shar", "share"),
        ({"sampler": "hardest", "hardst": {"share": 0.5}}, "hardst", "hardest"),
        ({"train_batch_sise": 1}, "train_batch_sise", "train_batch_size"),
    ],
)
def test_what_is_misspelt_of_a_sampler_is_reported_with_its_place(
    problem: Callable[..., Problem], data: Mapping[str, Any], key: str, suggestion: str
) -> None:
    found = problem(data=data)
    assert (found.key, found.suggestion) == (f"astuner.data.{key}", suggestion)


def test_an_order_that_a_sampler_does_not_keep_is_refused(plan: Planned, problem: Callable[..., Problem]) -> None:
    assert plan(data={"train_batch_size": 1, "shuffle": False}).recipe.sampler.candidate.name == "uniform"
    found = problem(data={"train_batch_size": 1, "shuffle": False, "sampler": "hardest"})
    assert found.key == "astuner.data.shuffle"
    assert found.message == "the sampler hardest takes the tasks in its own order. Remove this key."
