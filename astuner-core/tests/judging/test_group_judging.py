from __future__ import annotations

import asyncio
import math
import re

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.protocols import Judge
from astuner.contract.schema import Failure, Unjudged, Verdict, WorkflowOutput
from astuner.episodes.judging.composition import WeightedJudge, combine_judges
from astuner.episodes.judging.group_judging import judge_group
from astuner.episodes.judging.simple_judges import make_judge
from astuner_devkit.episodes import episode, group


class Fixed(Judge):
    def __init__(self, *verdicts):
        self.verdicts = verdicts

    async def judge(self, group):
        return self.verdicts


class Raising(Judge):
    async def judge(self, group):
        raise KeyError("answer")


class Hanging(Judge):
    async def judge(self, group):
        await asyncio.sleep(60)


def blank(repeat=0, output=None):
    return evolve(episode(repeat), verdict=None, output=output or WorkflowOutput())


def judged(episodes, judge, timeout_s=5.0):
    found = asyncio.run(judge_group(group(*episodes), judge, timeout_s=timeout_s))
    return [e.verdict for e in found.episodes]


def test_verdicts_go_to_the_completed_episodes_in_their_order():
    failed = evolve(blank(1), output=None, failures=(Failure(reason="timeout"),))
    found = judged([blank(0), failed, blank(2)], Fixed(Verdict(0.1), Verdict(0.2)))
    assert found == [Verdict(0.1), None, Verdict(0.2)]


def test_the_reward_of_the_workflow_wins():
    found = judged([blank(0, WorkflowOutput(reward=0.7, is_success=True)), blank(1)], Fixed(Verdict(0), Verdict(1.0)))
    assert found == [Verdict(0.7, True), Verdict(1.0)]


def test_a_mapping_of_rewards_is_kept_per_agent():
    (found,) = judged([blank(0, WorkflowOutput(reward={"a": 1.0, "b": 0.0}))], None)
    assert (found.reward, found.rewards) == (0.5, {"a": 1.0, "b": 0.0})


@pytest.mark.parametrize("reward", [math.nan, math.inf, {"a": math.nan}, {}])
def test_a_reward_that_is_no_number_is_no_reward(reward):
    (found,) = judged([blank(0, WorkflowOutput(reward=reward))], None)
    assert found.reason == "bad_reward"


@pytest.mark.parametrize(
    ("judge", "reason"),
    [
        (Raising(), "judge_error"),
        (Hanging(), "judge_timeout"),
        (Fixed(), "bad_verdict"),
        (Fixed(Verdict(math.nan)), "bad_verdict"),
        (Fixed(0.7), "bad_verdict"),
        (Fixed(None), "abstained"),
        (Fixed(Verdict(1.0, components={"style": math.inf})), "bad_verdict"),
        (None, "no_judge"),
    ],
)
def test_a_judge_that_fails_leaves_the_episode_unrewarded_and_says_why(judge, reason):
    (found,) = judged([blank()], judge, timeout_s=0.05 if reason == "judge_timeout" else 20.0)
    assert isinstance(found, Unjudged)
    assert found.reason == reason


def test_a_judge_that_compares_siblings_and_hangs_is_named_and_leaves_the_whole_group_unjudged():
    found = judged([blank(0), blank(1)], Hanging(), timeout_s=0.05)
    assert [type(one) for one in found] == [Unjudged, Unjudged]
    assert re.match(r"judge Hanging: no answer within 0.05 s; it was at \S*test_group_judging.py:\d+ in judge", found[0].detail)


class Impatient(Judge):
    async def judge(self, group):
        raise TimeoutError("math-verify gave no answer in 5 s")


def test_a_limit_of_the_judge_itself_is_not_called_that_of_the_run():
    (found,) = judged([blank()], Impatient(), timeout_s=60)
    assert found.reason == "judge_error"
    said = r"judge Impatient: TimeoutError: math-verify gave no answer in 5 s \(\S*test_group_judging.py:"
    assert re.match(said, found.detail)


def test_several_judges_are_added_up_by_weight_and_each_is_named():
    judge = combine_judges(
        [WeightedJudge("a", 0.5, Fixed(Verdict(1.0, True))), WeightedJudge("b", 2.0, Fixed(Verdict(0.25, False)))]
    )
    (found,) = judged([blank()], judge)
    assert (found.reward, found.is_success, found.components) == (1.0, False, {"a": 1.0, "b": 0.25})


def test_one_failing_judge_of_several_leaves_the_episode_unrewarded():
    judge = combine_judges(
        [WeightedJudge("a", 1.0, Fixed(Verdict(1.0))), WeightedJudge("b", 1.0, Fixed(Unjudged(reason="judge_error")))]
    )
    (found,) = judged([blank()], judge)
    assert (found.reason, "b" in found.detail) == ("judge_error", True)


def test_a_lone_judge_stands_for_itself():
    judge = Fixed()
    assert combine_judges([WeightedJudge("a", 1.0, judge)]) is judge


def test_a_float_of_numpy_is_a_number():
    (found,) = judged([blank()], Fixed(Verdict(np.float32(0.5))))
    assert found.reward == 0.5


class Closing(Fixed):
    closed = 0

    async def close(self):
        self.closed += 1


class Shaped:
    """Has the shape of a judge, and no `close`."""

    async def observe(self, episode, environment):
        return {}

    async def judge(self, group):
        return []


def test_every_judge_of_several_is_closed():
    first, second = Closing(), Closing()
    judge = combine_judges(
        [WeightedJudge("a", 1.0, first), WeightedJudge("b", 1.0, make_judge(Shaped())), WeightedJudge("c", 1.0, second)]
    )
    asyncio.run(judge.close())
    assert (first.closed, second.closed) == (1, 1)


def test_a_simple_judge_is_closed_too():
    class Simple:
        closed = False

        def compute_reward(self, workflow_task, workflow_output):
            return 0.0

        def close(self):
            self.closed = True

    simple = Simple()
    asyncio.run(make_judge(simple).close())
    assert simple.closed


def test_no_judges_combine_to_none():
    assert combine_judges([]) is None
