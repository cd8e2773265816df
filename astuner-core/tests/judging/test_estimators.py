from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from astuner.episodes.judging.estimators import (
    DrGrpo,
    Grpo,
    ReinforcePlusPlus,
    ReinforcePlusPlusBaseline,
    ReinforcePlusPlusEpisode,
    Rloo,
)

GROUP_RELATIVE = (Grpo(), Grpo(norm_by_std=False), DrGrpo(), Rloo())
WHOLE_STEP = (ReinforcePlusPlus(), ReinforcePlusPlusBaseline(), ReinforcePlusPlusEpisode())


def test_grpo_divides_by_the_unbiased_std_of_the_group():
    (found,) = Grpo().advantages([np.array([0.0, 0.0, 1.0, 1.0])])
    assert found == pytest.approx(np.array([-1, -1, 1, 1]) * 0.5 / (np.sqrt(1 / 3) + 1e-6))


def test_grpo_without_std_only_centres():
    (found,) = Grpo(norm_by_std=False).advantages([np.array([0.0, 1.0])])
    assert found.tolist() == [-0.5, 0.5]


@pytest.mark.parametrize("estimator", [*GROUP_RELATIVE, *WHOLE_STEP])
@given(reward=st.floats(-1e6, 1e6), sizes=st.lists(st.integers(0, 9), max_size=5))
@example(reward=0.1, sizes=[3, 6])
@example(reward=0.7, sizes=[3])
def test_equal_rewards_give_exactly_no_advantage(estimator, reward, sizes):
    found = estimator.advantages([np.full(size, reward) for size in sizes])
    assert [group.tolist() for group in found] == [[0.0] * size for size in sizes]


@pytest.mark.parametrize("estimator", GROUP_RELATIVE)
def test_a_group_that_agrees_has_no_advantage_next_to_one_that_does_not(estimator):
    same, other = estimator.advantages([np.full(3, 0.1), np.array([0.0, 1.0, 1.0])])
    assert (same.tolist(), bool(other.all())) == ([0.0] * 3, True)


@pytest.mark.parametrize("estimator", [*GROUP_RELATIVE, *WHOLE_STEP])
def test_rewards_that_differ_by_rounding_are_equal(estimator):
    assert not estimator.advantages([np.array([0.3, 0.1 + 0.2, 0.3])])[0].any()


def test_a_lone_survivor_has_nobody_to_be_compared_with():
    for estimator in GROUP_RELATIVE:
        assert estimator.advantages([np.array([5.0])])[0].tolist() == [0.0]


def test_dr_grpo_keeps_the_scale_of_the_rewards():
    assert DrGrpo().advantages([np.array([0.0, 10.0])])[0].tolist() == [-5.0, 5.0]


def test_rloo_compares_each_with_the_mean_of_the_others():
    (found,) = Rloo().advantages([np.array([0.0, 1.0, 5.0])])
    assert found == pytest.approx([0 - 3.0, 1 - 2.5, 5 - 0.5])


def test_reinforce_plus_plus_over_episodes_counts_each_once():
    groups = [np.array([0.0, 0.0]), np.array([1.0, 3.0])]
    everything = np.concatenate(groups)
    found = np.concatenate(ReinforcePlusPlusEpisode().advantages(groups))
    assert found == pytest.approx((everything - 1.0) / (everything.std(ddof=1) + 1e-6))


def whiten(values):
    """Return what verl's `masked_whiten` gives for these tokens."""
    values = np.array(values)
    return (values - values.mean()) / np.sqrt(values.var(ddof=1) + 1e-8)


def test_reinforce_plus_plus_whitens_over_tokens():
    # One right answer of 30 tokens, seven wrong ones of 6.
    rewards, lengths = np.array([1.0, *[0.0] * 7]), [30, *[6] * 7]
    returns = [np.full(length, reward) for reward, length in zip(rewards, lengths, strict=True)]
    found = ReinforcePlusPlus().token_advantages([rewards[:4], rewards[4:]], [returns[:4], returns[4:]])
    expected = whiten(np.repeat(rewards, lengths))
    assert np.concatenate([tokens for group in found for tokens in group]) == pytest.approx(expected)
    assert (found[0][0][0], found[0][1][0]) == pytest.approx((1.175, -0.839), abs=1e-3)


def test_reinforce_plus_plus_with_baseline_whitens_what_is_above_the_group():
    rewards, lengths = [np.array([0.0, 1.0]), np.array([2.0, 5.0])], [[2, 4], [3, 1]]
    returns = [[np.zeros(length) for length in group] for group in lengths]
    found = ReinforcePlusPlusBaseline().token_advantages(rewards, returns)
    expected = whiten([-0.5] * 2 + [0.5] * 4 + [-1.5] * 3 + [1.5])
    assert np.concatenate([tokens for group in found for tokens in group]) == pytest.approx(expected)


@pytest.mark.parametrize("estimator", WHOLE_STEP)
def test_no_groups_give_no_advantages(estimator):
    assert list(estimator.advantages([])) == []
