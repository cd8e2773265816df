from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from attrs import evolve

from astuner.contract.protocols import Judge
from astuner.contract.schema import Episode, Group, Unjudged, Verdict, WorkflowOutput, WorkflowTask
from astuner_devkit.contracts import Contract, JudgeContract, list_rules, run_contract
from astuner_devkit.contracts.sum_groups import make_sum_group


def is_right(workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
    right = workflow_output.metadata["final_answer"] == workflow_task.task.metadata["answer"]
    return float(right), right


class Closeness:
    async def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Verdict:
        await asyncio.sleep(0)
        answer, right = str(workflow_output.metadata["final_answer"]), str(workflow_task.task.metadata["answer"])
        return Verdict(float(answer == right), components={"length": len(answer)}, rewards={"agent": 0.5})


class Longest(Judge):
    """Relative: the longest answer of the siblings wins."""

    async def judge(self, group: Group) -> Sequence[Verdict | Unjudged]:
        lengths = [len(e.output.metadata["final_answer"]) for e in group.episodes if e.output is not None]
        return [Verdict(length / max(lengths)) for length in lengths]


class TestAFunction(JudgeContract):
    component = staticmethod(is_right)


class TestAFunctionByItsPath(JudgeContract):
    component = f"{__name__}:is_right"


class TestASimpleJudge(JudgeContract):
    component = Closeness


class TestAWholeJudge(JudgeContract):
    component = Longest


class Scores(Judge):
    """A good whole judge: what each answer is worth by itself, also where siblings have the same."""

    async def judge(self, group: Group) -> Any:
        return [self.of(group, episode) for episode in group.episodes if episode.output is not None]

    def of(self, group: Group, episode: Episode) -> Any:
        assert episode.output is not None
        return Verdict(float(len(episode.output.metadata["final_answer"])))


class NoJudge:
    def score(self) -> float:
        return 1.0


class OneArgument:
    def compute_reward(self, workflow_output: WorkflowOutput) -> float:
        return 1.0


class Unfinished(Judge):
    pass


class Blocking(Judge):
    def judge(self, group: Group) -> Any:
        return [Verdict(1.0)] * 4


class WithoutObserve:
    async def judge(self, group: Group) -> Any:
        return [Verdict(1.0)] * 4


class WantsAnotherField:
    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        return float(workflow_output.metadata["sentiment"])


class OnePerEpisode(Scores):
    async def judge(self, group: Group) -> Any:
        return [Verdict(1.0) for _ in group.episodes]


class NeedsSiblings(Scores):
    async def judge(self, group: Group) -> Any:
        rewards = [verdict.reward for verdict in await super().judge(group)]
        others = len(rewards) - 1
        return [Verdict(reward - (sum(rewards) - reward) / others) for reward in rewards]


class GivesNothing(Scores):
    async def judge(self, group: Group) -> Any:
        return None


class BareNumbers(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return 1.0


class Words:
    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> Any:
        return "right" if workflow_output.metadata["final_answer"] == "12" else 0.0


class WithoutReason(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return Unjudged(reason="") if episode.repeat else super().of(group, episode)


class NotANumber(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return Verdict(math.nan)


class TrueForOne(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return Verdict(True)


class NumpyReward(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return Verdict(np.float32(0.5))  # type: ignore[arg-type]


class NoneForAnAgent(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return Verdict(1.0, rewards={"coder": None})  # type: ignore[dict-item]


class InfiniteComponent(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return Verdict(1.0, components={"length": math.inf})


class SuccessInWords(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        return Verdict(1.0, "yes")  # type: ignore[arg-type]


class BestFirst(Scores):
    async def judge(self, group: Group) -> Any:
        return sorted(await super().judge(group), key=lambda verdict: -verdict.reward)


class FirstWins(Scores):
    async def judge(self, group: Group) -> Any:
        rest = [Verdict(0.0)] * (len(await super().judge(group)) - 1)
        return [Verdict(1.0), *rest]


class WritesIntoTheOutput:
    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        workflow_output.metadata["score"] = 1.0  # type: ignore[index]
        return 1.0


class WritesIntoTheCalls(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        episode.calls[0].logprobs[0] = 0.0
        return super().of(group, episode)


class ZeroForAnError:
    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        try:
            return float(workflow_output.metadata["final_answer"] == workflow_task.task.metadata["answer"])
        except Exception:  # noqa: BLE001  # what is wrong with it
            return 0.0


class ZeroForABrokenReply(Scores):
    def of(self, group: Group, episode: Episode) -> Any:
        try:
            return Verdict(float(len(episode.calls[0].reply["content"])))
        except RuntimeError:
            return Verdict(0.0)


class HalfForABrokenTask:
    """Reads the task through a copy: also a way of looking."""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        try:
            answer = {**workflow_task.task.metadata}["answer"]
        except RuntimeError:
            return 0.5
        return float(workflow_output.metadata["final_answer"] == answer)


class AsksAModel:
    """Calls out, and has a score for when nobody answers."""

    def __init__(self) -> None:
        self.call: Callable[[str], str] = str.strip

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        answer = workflow_output.metadata["final_answer"]
        try:
            return float(self.call(answer) == workflow_task.task.metadata["answer"])
        except ConnectionError:
            return 0.0


class RemembersTheTask(Judge):
    right = ""

    async def judge(self, group: Group) -> Any:
        self.right = group.task.metadata["answer"]
        await asyncio.sleep(0)
        answers = [episode.output.metadata["final_answer"] for episode in group.episodes if episode.output is not None]
        return [Verdict(float(answer == self.right)) for answer in answers]


class RemembersTheEpisode:
    """Sync, so each episode has a thread: what `self` holds is another's by the time that it is read."""

    answer = ""

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        self.answer = workflow_output.metadata["final_answer"]
        time.sleep(0.2)
        return float(self.answer[-1:] == "1")


class Slow(Judge):
    async def judge(self, group: Group) -> Any:
        await asyncio.sleep(60)


def no_connection(*_: Any) -> str:
    raise ConnectionError("refused")


def break_calls(self: Any, judge: Any) -> None:
    judge.call = no_connection


BAD: list[tuple[str, Any, str]] = [
    (
        "test_it_is_a_judge",
        NoJudge,
        "has neither `judge` nor `compute_reward`: subclass astuner.Judge, or write `compute_reward(self",
    ),
    ("test_it_is_a_judge", OneArgument, "core calls compute_reward(workflow_task, workflow_output), but its signature differs"),
    ("test_it_is_a_judge", staticmethod(len), "is called with (workflow_task, workflow_output), and does not take that"),
    ("test_it_is_a_judge", Unfinished, "lacks judge, which every astuner.Judge has"),
    ("test_it_is_a_judge", Blocking, "`judge` is awaited, and so must be async: `async def judge(self, group)`"),
    ("test_it_is_a_judge", WithoutObserve, "has `judge` and no `observe`: subclass astuner.Judge"),
    ("test_it_judges_its_group", WantsAnotherField, "raised KeyError: 'sentiment'"),
    ("test_it_judges_its_group", WantsAnotherField, "override `group()` with one that it can judge"),
    ("test_each_completed_episode_gets_one_verdict", OnePerEpisode, "gave 5 verdicts for 4 completed episodes of 5"),
    ("test_each_completed_episode_gets_one_verdict", NeedsSiblings, "raised ZeroDivisionError"),
    ("test_each_completed_episode_gets_one_verdict", GivesNothing, "raised TypeError: 'NoneType' object is not iterable"),
    ("test_answers_are_verdicts_or_failures", BareNumbers, "episode 'train/1/7+5/0' is 1.0: return astuner.Verdict(reward)"),
    (
        "test_answers_are_verdicts_or_failures",
        Words,
        "returned 'right'; a float or bool, (float, bool), a Verdict, an object with `reward` and `metrics`, or None",
    ),
    ("test_answers_are_verdicts_or_failures", WithoutReason, "episode 'train/1/7+5/1' is Unjudged without a reason"),
    ("test_rewards_are_finite_numbers", NotANumber, "reward is nan (float): give a finite Python float"),
    ("test_rewards_are_finite_numbers", TrueForOne, "reward is True (bool)"),
    ("test_rewards_are_finite_numbers", NumpyReward, "(float32): give a finite Python float"),
    ("test_rewards_are_finite_numbers", NoneForAnAgent, "rewards['coder'] is None (NoneType)"),
    ("test_rewards_are_finite_numbers", InfiniteComponent, "components['length'] is inf (float)"),
    ("test_rewards_are_finite_numbers", SuccessInWords, "is_success is 'yes': give a bool or None"),
    ("test_rewards_are_finite_numbers", Words, "returned 'right'"),
    ("test_verdicts_follow_the_episodes", BestFirst, "with its siblings in another order"),
    ("test_verdicts_follow_the_episodes", FirstWins, "with its siblings in another order"),
    ("test_the_group_stays_as_it_is", WritesIntoTheOutput, "episodes[0].output.metadata['score']: nothing became 1.0"),
    ("test_the_group_stays_as_it_is", WritesIntoTheCalls, "episodes[0].calls[0].logprobs: "),
    (
        "test_a_failure_is_never_a_score",
        ZeroForAnError,
        "is a Verdict (reward 0.0, is_success None) although task.metadata cannot be read",
    ),
    ("test_a_failure_is_never_a_score", ZeroForABrokenReply, "although calls[…].reply cannot be read: raise"),
    (
        "test_a_failure_is_never_a_score",
        HalfForABrokenTask,
        "(reward 0.5, is_success None) although task.metadata cannot be read",
    ),
    (
        "test_a_broken_call_is_never_a_score",
        AsksAModel,
        "(reward 0.0, is_success None) although its calls failed: let the error out",
    ),
    ("test_groups_can_be_judged_at_once", RemembersTheTask, "keep nothing about a group or an episode on `self`"),
    ("test_groups_can_be_judged_at_once", RemembersTheEpisode, "when other groups were judged at the same time"),
]


def contract_of(judge: Any, **given: Any) -> type[JudgeContract]:
    return type("Bad", (JudgeContract,), {"component": judge, "break_calls": break_calls, **given})


@pytest.mark.parametrize(("rule", "judge", "words"), BAD)
def test_a_bad_judge_breaks_its_rule(rule: str, judge: Any, words: str) -> None:
    outcome = next(outcome for outcome in run_contract(contract_of(judge)) if outcome.rule == rule)
    assert (outcome.status, words in outcome.message) == ("failed", True), outcome


def test_each_rule_has_a_bad_judge() -> None:
    assert {rule for rule, _, _ in BAD} == set(list_rules(JudgeContract)) - set(list_rules(Contract))


def outcomes(contract: type[JudgeContract]) -> dict[str, str]:
    return {outcome.rule: outcome.status for outcome in run_contract(contract)}


@pytest.mark.parametrize("judge", [Scores, Closeness, Longest, staticmethod(is_right)])
def test_a_good_judge_keeps_all_rules_but_that_on_calls_which_it_does_not_make(judge: Any) -> None:
    found = outcomes(type("Good", (JudgeContract,), {"component": judge}))
    assert found.pop("test_a_broken_call_is_never_a_score") == "skipped"
    assert set(found.values()) == {"passed"}


class LetsErrorsOut(AsksAModel):
    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        return float(self.call(workflow_output.metadata["final_answer"]) == workflow_task.task.metadata["answer"])


class RaisesForTheGroup(Judge):
    async def judge(self, group: Group) -> Any:
        return [Verdict(self.call(e.output.metadata["final_answer"])) for e in group.episodes if e.output is not None]

    def call(self, answer: str) -> float:
        return float(len(answer))


@pytest.mark.parametrize("judge", [LetsErrorsOut, RaisesForTheGroup])
def test_a_judge_whose_calls_fail_may_raise(judge: Any) -> None:
    assert outcomes(contract_of(judge))["test_a_broken_call_is_never_a_score"] == "passed"


def test_a_judge_that_reads_nothing_cannot_be_broken() -> None:
    contract = contract_of(staticmethod(lambda workflow_task, workflow_output: 1.0))
    assert outcomes(contract)["test_a_failure_is_never_a_score"] == "skipped"


def test_a_slow_judge_is_told_how_to_get_more_time() -> None:
    outcome = run_contract(contract_of(Slow, timeout_s=0.01))[-1]
    assert "gave no verdicts within 0.01 s: set `timeout_s`" in outcome.message


class ClosedAtTheEnd(Scores):
    closed: ClassVar[list[Any]] = []

    async def close(self) -> None:
        self.closed.append(self)


def test_a_judge_is_closed_when_it_has_judged() -> None:
    run_contract(contract_of(ClosedAtTheEnd))
    assert len(ClosedAtTheEnd.closed) == len(set(ClosedAtTheEnd.closed)) > 0


class TestAGroupOfOnesOwn(JudgeContract):
    component = WantsAnotherField

    def group(self) -> Group:
        group = make_sum_group(1, 1)
        outputs = [WorkflowOutput(metadata={"sentiment": episode.repeat}) for episode in group.episodes]
        return evolve(group, episodes=tuple(evolve(e, output=output) for e, output in zip(group.episodes, outputs, strict=True)))
