from __future__ import annotations

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from astuner.episodes.judging.advantages import compute_advantages, has_no_signal, is_group_relative
from astuner.episodes.judging.estimators import (
    DrGrpo,
    Grpo,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    ReinforcePlusPlusEpisode,
    Rloo,
)
from astuner.episodes.rollout.metrics import compute_rollout_metrics
from astuner_devkit.episodes import episode, group


class BestOrNothing:
    """An estimator of somebody else: it has what the Protocol asks for, and no more."""

    def advantages(self, groups):
        return [(rewards == rewards.max()) - (rewards == rewards.max()).mean() for rewards in groups]


def test_an_episode_without_a_reward_is_neither_a_row_nor_part_of_the_mean():
    rows = compute_advantages([group(episode(0, 0.0), episode(1, 1.0), episode(2, None))], DrGrpo())
    assert [(row.sample.episode_id, row.advantage) for row in rows] == [("train/1/t/0", -0.5), ("train/1/t/1", 0.5)]


@pytest.mark.parametrize("untrained", [None, "timeout"])
def test_an_episode_without_a_sample_is_part_of_the_mean(untrained):
    success = episode(3, 1.0)
    calls = tuple(evolve(call, untrained=untrained) for call in success.calls)
    groups = [group(*(evolve(episode(repeat, 0.0), calls=calls, samples=()) for repeat in range(3)), success)]
    assert [(row.sample.episode_id, row.advantage) for row in compute_advantages(groups, DrGrpo())] == [("train/1/t/3", 0.75)]
    assert not has_no_signal(groups[0])


@pytest.mark.parametrize(
    "estimator", [Grpo(), Rloo(), ReinforcePlusPlus(), ReinforcePlusPlusBaseline(), ReinforcePlusPlusEpisode()]
)
def test_every_estimator_takes_an_episode_without_a_sample(estimator):
    groups = [group(evolve(episode(0, 0.0), samples=()), episode(1, 1.0), episode(2, 0.0))]
    first, second = compute_advantages(groups, estimator)
    assert first.advantage > 0 > second.advantage


def test_a_group_without_any_sample_gives_no_signal():
    assert has_no_signal(group(*(evolve(episode(repeat, float(repeat)), samples=()) for repeat in range(2))))


def test_rewards_that_differ_by_rounding_around_0_agree():
    assert has_no_signal(group(episode(0, 0.1 + 0.2 - 0.3), episode(1, 0.0)))


def test_agents_are_compared_with_the_same_agent_of_the_siblings():
    first = episode(0, 0.0, agents=("a", "b"), rewards={"a": 0.0, "b": 4.0})
    second = episode(1, 0.0, agents=("a", "b"), rewards={"a": 2.0, "b": 4.0})
    found = {
        (row.sample.episode_id[-1], row.sample.agent): row.advantage
        for row in compute_advantages([group(first, second)], DrGrpo())
    }
    assert found == {("0", "a"): -1.0, ("0", "b"): 0.0, ("1", "a"): 1.0, ("1", "b"): 0.0}


def test_penalties_are_taken_off_before_the_comparison():
    groups = [group(episode(0, 1.0), episode(1, 2.0))]
    rows = compute_advantages(groups, DrGrpo(), {("train/1/t/0", "agent"): np.array([0.1, 0.2, 0.2])})
    assert [row.advantage for row in rows] == [-0.75, 0.75]


@pytest.mark.parametrize("estimator", [Grpo(), DrGrpo(), Rloo(), BestOrNothing()])
def test_penalties_give_no_advantage_to_siblings_whose_rewards_agree(estimator):
    equal = group(episode(0, 1.0), episode(1, 1.0))
    other = group(episode(0, 1.0, task="u"), episode(1, 0.0, task="u"))
    rows = compute_advantages([equal, other], estimator, {("train/1/t/0", "agent"): np.full(3, 7.2e-6)})
    assert [bool(row.advantage) for row in rows] == [False, False, True, True]
    assert compute_rollout_metrics([equal, other], rows)["signal/groups_without_signal"] == 1


@pytest.mark.parametrize("estimator", [ReinforcePlusPlus(), ReinforcePlusPlusBaseline(), ReinforcePlusPlusEpisode()])
def test_penalties_give_no_advantage_to_a_step_whose_rewards_agree(estimator):
    groups = [group(episode(0, 1.0), episode(1, 1.0))]
    rows = compute_advantages(groups, estimator, {("train/1/t/0", "agent"): np.full(3, 7.2e-6)})
    assert [row.live_tokens for row in rows] == [0, 0]


def test_penalties_within_a_return_count_for_the_tokens_before_them():
    groups = [group(episode(0, 1.0, rows=2), episode(1, 0.0))]
    rows = compute_advantages(groups, ReinforcePlusPlus(), {("train/1/t/0", "agent"): np.array([0.0, 0.1, 0.0, 0.0, 0.2, 0.0])})
    returns = np.array([0.7, 0.7, 0.8, 0.8, 0.8, 1.0, 0.0, 0.0, 0.0])
    expected = (returns - returns.mean()) / np.sqrt(returns.var(ddof=1) + 1e-8)
    assert np.concatenate([row.spread() for row in rows]) == pytest.approx(expected)
    assert [row.live_tokens for row in rows] == [3, 3, 3]


def test_an_estimator_over_the_step_leaves_no_group_without_signal():
    groups = [group(episode(0, 1.0), episode(1, 1.0)), group(episode(0, 0.0, task="u"), episode(1, 0.0, task="u"))]
    rows = compute_advantages(groups, ReinforcePlusPlus())
    assert compute_rollout_metrics(groups, rows)["signal/groups_without_signal"] == 0
    assert [row.advantage > 0 for row in rows] == [True, True, False, False]


def test_what_an_estimator_rounds_is_no_signal():
    class Centred(BestOrNothing):
        def advantages(self, groups):
            return [rewards - rewards.mean() for rewards in groups]

    groups = [group(*(episode(i, 0.1) for i in range(3))), group(*(episode(i, float(i), task="u") for i in range(3)))]
    rows = compute_advantages(groups, Centred())
    assert [row.live_tokens for row in rows] == [0, 0, 0, 3, 0, 3]


@pytest.mark.parametrize(("estimator", "relative"), [(Grpo(), True), (ReinforcePlusPlus(), False), (BestOrNothing(), True)])
def test_an_estimator_that_does_not_say_so_compares_siblings(estimator, relative):
    assert is_group_relative(estimator) is relative


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=6), st.lists(st.integers(1, 4), min_size=6, max_size=6))
def test_how_many_rows_an_episode_has_does_not_change_its_advantage(rewards, rows):
    whole = compute_advantages([group(*(episode(i, r) for i, r in enumerate(rewards)))], Grpo())
    split = compute_advantages([group(*(episode(i, r, rows=rows[i]) for i, r in enumerate(rewards)))], Grpo())
    assert {r.sample.episode_id: r.advantage for r in split} == {r.sample.episode_id: r.advantage for r in whole}


@pytest.mark.parametrize(
    ("rewards", "dead"), [((1.0, 1.0), True), ((1.0, 0.0), False), ((1.0, None), True), ((None, None), True)]
)
def test_a_group_is_without_signal_when_all_rewarded_siblings_agree(rewards, dead):
    assert has_no_signal(group(*(episode(i, r) for i, r in enumerate(rewards)))) is dead
