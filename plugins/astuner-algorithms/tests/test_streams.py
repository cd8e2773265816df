"""Estimators that see whole episodes: their contracts, and values by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest
from attrs import evolve
from made_up_outcomes import advantages_of, play

from astuner.contract.schema import Call
from astuner_algorithms.streams import Gdpo, Opd, Rae, RejectionSampling, Remax, Sft, TurnLevel
from astuner_devkit.contracts import EstimatorContract


class TestSft(EstimatorContract):
    component = "astuner_algorithms.streams:Sft"


class TestRejectionSampling(EstimatorContract):
    component = "astuner_algorithms.streams:RejectionSampling"


class TestOpd(EstimatorContract):
    component = "astuner_algorithms.streams:Opd"
    options: Mapping[str, Any] = {"teacher": "reference"}


class TestRemax(EstimatorContract):
    component = "astuner_algorithms.streams:Remax"


class TestGdpo(EstimatorContract):
    component = "astuner_algorithms.streams:Gdpo"


class TestTurnLevel(EstimatorContract):
    component = "astuner_algorithms.streams:TurnLevel"


class TestRae(EstimatorContract):
    component = "astuner_algorithms.streams:Rae"


def test_all_that_is_rewarded_is_imitated() -> None:
    (found,) = Sft().signal([[play(0.0), play(1.0)]])
    assert [one.likelihood for one in found] == [1.0, 1.0]
    assert not any(np.any(one.advantages) or np.any(one.divergence) for one in found)


@pytest.mark.parametrize(
    ("rewards", "least", "expected"),
    [
        ([0.0, 1.0, 0.5], 0.0, [0.0, 1.0, 0.0]),
        ([1.0, 1.0, 0.0], 0.0, [0.5, 0.5, 0.0]),
        ([0.0, 0.0], 0.0, [0.0, 0.0]),
        ([0.4, 0.6], 0.6, [0.0, 0.0]),
        ([-1.0, -0.5], -0.7, [0.0, 1.0]),
        ([], 0.0, []),
    ],
)
def test_the_best_is_imitated_if_it_is_good_enough(rewards: list[float], least: float, expected: list[float]) -> None:
    estimator = RejectionSampling(RejectionSampling.Options(least_reward=least))
    (found,) = estimator.signal([[play(reward) for reward in rewards]])
    assert [one.likelihood for one in found] == expected


def test_a_token_that_the_teacher_prefers_has_an_advantage() -> None:
    estimator = Opd(Opd.Options(teacher="teacher", most=3.0))
    assert estimator.traits.scored_by == ("teacher",)
    (found,) = estimator.signal([[play(0.0, scores={"teacher": np.array([-0.5, -40.0])})]])
    assert advantages_of(found) == [[0.5, -3.0]]


def test_each_component_counts_as_much_whatever_its_range() -> None:
    siblings = [play(0.0, components={"right": right, "short": 100 * short}) for right, short in ((1, 0), (0, 1), (1, 1), (0, 0))]
    (found,) = Gdpo().signal([siblings])
    one, other, both, neither = (float(np.asarray(one.advantages)) for one in found)
    assert one == pytest.approx(other, abs=1e-4)
    assert both > 0.5 > -0.5 > neither
    assert both == pytest.approx(-neither, rel=1e-4)


def test_components_that_are_not_named_do_not_count() -> None:
    siblings = [play(0.0, components={"right": right, "short": short}) for right, short in ((1, 0), (0, 1))]
    (found,) = Gdpo(Gdpo.Options(weights={"short": 2.0})).signal([siblings])
    assert np.asarray(found[0].advantages) < 0 < np.asarray(found[1].advantages)


def test_without_components_the_reward_is_the_only_one() -> None:
    (found,) = Gdpo().signal([[play(1.0), play(0.0)]])
    assert np.asarray(found[1].advantages) < 0 < np.asarray(found[0].advantages)


def test_a_turn_is_compared_with_turns_from_the_same_state() -> None:
    estimator = TurnLevel(TurnLevel.Options(discount=0.5, norm_by_std=False))
    siblings = [
        play(1.0, told=("start", "left"), rewards=(0.0, 1.0)),  # returns .5 and 1
        play(0.0, told=("start", "right"), rewards=(0.0, 0.0)),
        play(0.5, told=("start", "left"), rewards=(0.0, 0.5)),  # .25 and .5
    ]
    (found,) = estimator.signal([siblings])
    of_first = [0.5 - 0.25, 0.0 - 0.25, 0.25 - 0.25]
    of_left = [1.0 - 0.75, 0.0, 0.5 - 0.75]
    of_episode = [0.5, -0.5, 0.0]
    assert advantages_of(found) == [
        [of_episode[n] + of_first[n]] * 2 + [of_episode[n] + of_left[n]] * 2 for n in range(len(siblings))
    ]


def test_without_rewards_of_steps_the_last_turn_has_that_of_the_episode() -> None:
    estimator = TurnLevel(TurnLevel.Options(discount=0.5, norm_by_std=False))
    (found,) = estimator.signal([[play(1.0, told=("a", "b")), play(0.0, told=("a", "c"))]])
    assert advantages_of(found) == [[0.75, 0.75, 0.5, 0.5], [-0.75, -0.75, -0.5, -0.5]]


def test_rewards_beyond_the_last_turn_are_its_own() -> None:
    estimator = TurnLevel(TurnLevel.Options(discount=1.0, norm_by_std=False))
    (found,) = estimator.signal([[play(0.0, rewards=(1.0, 2.0)), play(0.0, rewards=(0.0,))]])
    assert advantages_of(found) == [[1.5, 1.5], [-1.5, -1.5]]


def test_a_role_is_compared_with_what_it_got_so_far() -> None:
    estimator = Rae(Rae.Options(decay=0.5))
    first = [[play(1.0, agent="first"), play(0.0, agent="first")], [play(-1.0, agent="second")]]
    assert [advantages_of(siblings) for siblings in estimator.signal(first)] == [[0.5, -0.5], [0.0]]
    # (.5 → .75 → .375)
    assert estimator.baselines == {"first": 0.375, "second": -1.0}
    (again,) = estimator.signal([[play(1.0, agent="first")]])
    assert advantages_of(again) == [0.625]


def test_the_states_of_two_calls_are_those_of_their_messages() -> None:
    """A program may record no messages: then it is the ids that tell."""
    one = play(1.0)
    bare = evolve(one, episode=evolve(one.episode, calls=(evolve(cast("Call", one.episode.calls[0]), messages=()),)))
    (found,) = TurnLevel(TurnLevel.Options(norm_by_std=False)).signal([[bare, evolve(bare, reward=0.0)]])
    assert advantages_of(found) == [[1.0, 1.0], [-1.0, -1.0]]


def test_what_a_greedy_answer_gets_is_no_merit() -> None:
    (found,) = Remax().signal([[evolve(play(reward), greedy=0.25) for reward in (1.0, 0.25, 0.0)]])
    assert advantages_of(found) == [[0.75, 0.75], [0.0, 0.0], [-0.25, -0.25]]


def test_one_episode_is_enough_for_remax() -> None:
    assert advantages_of(Remax().signal([[evolve(play(1.0), greedy=0.0)]])[0]) == [[1.0, 1.0]]


def test_penalties_count_from_each_token_on() -> None:
    outcome = evolve(play(1.0), greedy=0.5, reward=0.7, returns=np.array([0.7, 0.9]))
    assert advantages_of(Remax().signal([[outcome]])[0]) == [[0.2, 0.4]]


def test_without_a_greedy_reward_there_is_no_signal() -> None:
    assert advantages_of(Remax().signal([[play(1.0)], [evolve(play(1.0), greedy=0.0)]])[0]) == [[0.0, 0.0]]


def test_rounding_is_no_advantage() -> None:
    (found,) = Remax().signal([[evolve(play(0.1 + 0.2), greedy=0.3)]])
    assert not np.any(found[0].advantages)
