"""From which label an answer is good, and from which reward a verdict is a success."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from attrs import evolve, frozen

from astuner.contract.schema import Task, Unjudged, Verdict
from astuner_judges.evaluation.judging import JudgedExample, Judgement
from astuner_judges.evaluation.labelled import LabelledAnswer, LabelledExample
from astuner_judges.evaluation.limits import find_limits


@frozen(kw_only=True)
class OfAJudge:
    min_score: float = 0.0
    max_score: float = 10.0
    success_threshold: float | None = None


@frozen
class OnlyAThreshold:
    success_threshold: float


def found(labels: Sequence[float], rewards: Sequence[float | bool | None], *, scored: bool = True) -> list[JudgedExample]:
    """Return judged examples of one answer each; a bool is a verdict that says whether it is a success, None is unjudged."""

    def make_verdict(reward: float | bool | None) -> Judgement:
        if reward is None:
            return Unjudged(reason="judge_error")
        return Verdict(float(reward), reward if isinstance(reward, bool) else None)

    made = []
    for label, reward in zip(labels, rewards, strict=True):
        example = LabelledExample(task=Task("q"), query="q", answers=(LabelledAnswer(text="a", label=label),), scored=scored)
        made.append(JudgedExample(example=example, forwards=(make_verdict(reward),)))
    return made


@pytest.mark.parametrize(
    ("labels", "options", "limit"),
    [
        ([0, 1], None, 0.5),
        ([1, 5], None, 3.0),
        ([1, 1], None, 0.5),
        ([1, 5], object(), 3.0),
        ([0, 10], OfAJudge(), 5.0),
        ([0, 10], OfAJudge(success_threshold=7), 7.0),
        ([8, 10], OfAJudge(success_threshold=7), 7.0),
        ([0, 1], OfAJudge(max_score=1.0, success_threshold=0.7), 0.7),
        ([1, 5], OnlyAThreshold(4.0), 4.0),
    ],
)
def test_a_good_label_is_what_the_judge_calls_a_success_else_the_upper_half(
    labels: list[float], options: Any, limit: float
) -> None:
    limits = find_limits(found(labels, [True, False]), options=options)
    assert (limits.label, limits.notes) == (limit, ())
    assert find_limits(found(labels, [True, False]), threshold=2.0, options=options).label == 2.0


@pytest.mark.parametrize(
    ("labels", "options", "halfway"),
    [
        ([0, 1], OfAJudge(success_threshold=7), 0.5),  # no label reaches it
        ([0, 10], OfAJudge(max_score=1.0, success_threshold=0.7), 5.0),  # labels are no scores of the judge
        ([-1, 1], OfAJudge(max_score=1.0, success_threshold=0.7), 0.0),
    ],
)
def test_a_threshold_of_another_scale_is_not_taken_and_that_is_said(labels: list[float], options: Any, halfway: float) -> None:
    limits = find_limits(found(labels, [True, False]), options=options)
    assert limits.label == halfway
    (note,) = limits.notes
    assert f"success_threshold of {options.success_threshold:g} says nothing of these labels" in note


@pytest.mark.parametrize(
    ("labels", "rewards", "limit"),
    [
        ([0, 1], [0.1, 0.9], 0.5),
        ([0.2, 0.8], [0.0, 1.0], 0.5),
        ([1, 5], [1.5, 4.0], 3.0),
        ([1, 1], [0.2, 0.9], 0.5),
        ([0, 1], [0.6, 0.7], 0.5),
        ([-1, 1], [-1.0, 0.9], 0.0),
        ([0, 1, 2], [0.5, 1.0, 2.0], 1.0),
    ],
)
def test_rewards_on_the_scale_of_the_labels_have_their_limit(labels: list[float], rewards: list[float], limit: float) -> None:
    limits = find_limits(found(labels, rewards))
    assert (limits.reward, limits.decides, limits.notes) == (limit, True, ())


@pytest.mark.parametrize(
    ("labels", "rewards"),
    [
        ([1, 5], [0.1, 0.9]),
        ([0, 10], [0.1, 0.9]),
        ([0, 1], [2.0, 9.0]),
        ([0, 1], [-1.0, 1.0]),
        ([-1, 1], [0.0, 1.0]),
        ([0, 1, 2], [0.0, 0.5, 1.0]),
        ([0, 3], [0.0, 2.0]),
        ([1, 5], [4.0, 5.0]),
    ],
)
def test_rewards_on_another_scale_make_no_decisions_unless_their_limit_is_given(
    labels: list[float], rewards: list[float]
) -> None:
    limits = find_limits(found(labels, rewards))
    assert (limits.reward, limits.decides) == (None, False)
    (note,) = limits.notes
    assert "accuracy and kappa are left out; give --success-reward" in note
    told = find_limits(found(labels, rewards), success_reward=0.3)
    assert (told.reward, told.decides, told.notes) == (0.3, True, ())


def test_verdicts_that_say_it_themselves_need_no_limit_of_rewards() -> None:
    limits = find_limits(found([1, 5, 3], [False, True, None]))
    assert (limits.reward, limits.decides, limits.notes) == (None, True, ())
    assert not find_limits(found([1, 5], [True, 0.4])).decides


def test_ranks_make_no_decisions_and_nothing_is_said_of_them() -> None:
    assert find_limits(found([-1, -2], [40.0, 3.0], scored=False)).notes == ()
    mixed = [*found([1], [40.0]), *(evolve(one) for one in found([-1], [3.0], scored=False))]
    assert find_limits(mixed).notes == ()
