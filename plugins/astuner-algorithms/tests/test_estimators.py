"""Estimators of the literature: their contracts, and values by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.episodes.judging.advantages import compute_advantages
from astuner.settings.config.model import Config
from astuner.settings.config.trainer import Algorithm, TrainerCommon
from astuner_algorithms.estimators import Opo, PassAtK
from astuner_devkit import run_info
from astuner_devkit.contracts import EstimatorContract
from astuner_devkit.episodes import episode, group

REWARDS = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=9).map(lambda values: np.array(values))


class TestOpo(EstimatorContract):
    component = "astuner_algorithms.estimators:Opo"


class TestPassAtK(EstimatorContract):
    component = "astuner_algorithms.estimators:PassAtK"


def returns_of(rewards: np.ndarray, lengths: list[int]) -> list[np.ndarray]:
    return [np.full(length, reward) for reward, length in zip(rewards, lengths, strict=True)]


def test_a_long_answer_weighs_more_in_the_baseline() -> None:
    rewards = np.array([1.0, 0.0])
    (found,) = Opo().token_advantages([rewards], [returns_of(rewards, [1, 3])])
    assert [tokens.tolist() for tokens in found] == [[0.75], [-0.25] * 3]


def test_answers_of_equal_length_are_compared_with_their_mean() -> None:
    (found,) = Opo().advantages([np.array([1.0, 0.0, 0.0, 1.0])])
    assert found.tolist() == [0.5, -0.5, -0.5, 0.5]


def test_siblings_without_trained_tokens_do_not_count() -> None:
    rewards = np.array([1.0, 0.0, 5.0])
    (found,) = Opo().token_advantages([rewards], [returns_of(rewards, [2, 2, 0])])
    assert [tokens.tolist() for tokens in found] == [[0.5, 0.5], [-0.5, -0.5], []]


def test_a_group_without_trained_tokens_has_no_advantages() -> None:
    (found,) = Opo().token_advantages([np.array([1.0, 0.0])], [[np.zeros(0), np.zeros(0)]])
    assert [tokens.tolist() for tokens in found] == [[], []]


@given(REWARDS, st.data())
def test_advantages_times_lengths_add_up_to_0(rewards: np.ndarray, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 50), min_size=rewards.size, max_size=rewards.size))
    (found,) = Opo().token_advantages([rewards], [returns_of(rewards, lengths)])
    assert sum(tokens.sum() for tokens in found) == pytest.approx(0, abs=1e-6)


def test_only_the_best_sibling_gets_what_it_adds() -> None:
    (found,) = PassAtK(norm_by_std=False).advantages([np.array([0.25, 1.0, 0.5])])
    assert found.tolist() == [0.0, 0.5, 0.0]


def test_two_best_siblings_add_nothing() -> None:
    (found,) = PassAtK().advantages([np.array([1.0, 0.0, 1.0])])
    assert found.tolist() == [0.0, 0.0, 0.0]


@given(REWARDS)
def test_an_advantage_is_the_best_reward_less_the_best_without_it(rewards: np.ndarray) -> None:
    (found,) = PassAtK(norm_by_std=False).advantages([rewards])
    assert found.tolist() == pytest.approx([rewards.max() - np.delete(rewards, i).max() for i in range(rewards.size)])


@pytest.mark.parametrize(("norm_by_std", "expected"), [(True, 2.0), (False, 1.0)])
def test_the_deviation_divides_unless_the_run_says_no(norm_by_std: bool, expected: float, tmp_path: Path) -> None:
    algorithm = Algorithm(norm_adv_by_std_in_grpo=norm_by_std)
    info = run_info(tmp_path, config=Config(trainer_common=TrainerCommon(algorithm=algorithm)))
    (found,) = PassAtK.from_run(None, info).advantages([np.array([0.0, 0.0, 0.0, 1.0])])
    assert found.tolist() == pytest.approx([0.0, 0.0, 0.0, expected], rel=1e-5)


def test_tokens_of_all_samples_of_an_episode_count() -> None:
    """One sibling is of three samples with three trained tokens each, the other of one."""
    siblings = group(episode(0, 1.0, rows=3), episode(1, 0.0, rows=1))
    found = {(one.sample.episode_id, one.advantage) for one in compute_advantages([siblings], Opo())}
    first, second = (one.id for one in siblings.episodes)
    assert found == {(first, 0.25), (second, -0.75)}
