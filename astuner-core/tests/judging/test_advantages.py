from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astuner.judging.advantages import compute_advantages, has_no_signal
from astuner.judging.estimators import DrGrpo, Grpo
from astuner.testing.episodes import episode, group


def test_an_episode_without_a_reward_is_neither_a_row_nor_part_of_the_mean():
    rows = compute_advantages([group(episode(0, 0.0), episode(1, 1.0), episode(2, None))], DrGrpo())
    assert [(row.sample.episode_id, row.advantage) for row in rows] == [("train/1/t/0", -0.5), ("train/1/t/1", 0.5)]


def test_agents_are_compared_with_the_same_agent_of_the_siblings():
    first = episode(0, 0.0, agents=("a", "b"), rewards={"a": 0.0, "b": 4.0})
    second = episode(1, 0.0, agents=("a", "b"), rewards={"a": 2.0, "b": 4.0})
    found = {
        (row.sample.episode_id[-1], row.sample.agent): row.advantage
        for row in compute_advantages([group(first, second)], DrGrpo())
    }
    assert found == {("0", "a"): -1.0, ("0", "b"): 0.0, ("1", "a"): 1.0, ("1", "b"): 0.0}


def test_penalties_are_taken_off_before_the_comparison():
    groups = [group(episode(0, 1.0), episode(1, 1.0))]
    rows = compute_advantages(groups, DrGrpo(), {("train/1/t/0", "agent"): 0.5})
    assert [row.advantage for row in rows] == [-0.25, 0.25]


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
