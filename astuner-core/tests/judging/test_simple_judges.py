from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
import urllib.error
from collections.abc import Callable
from email.message import Message
from typing import Any

import httpx
import httpx2
import numpy as np
import openai
import pytest

from astuner.contract.errors import PluginError, ServiceUnavailable
from astuner.contract.protocols import Judge, JudgeTraits
from astuner.contract.schema import Episode, Failure, Group, Task, Unjudged, Verdict, WorkflowOutput, WorkflowTask
from astuner.episodes.containment.endings import UserQuit
from astuner.episodes.judging.failures import collect_verdicts
from astuner.episodes.judging.simple_judges import make_judge


def group(*outputs: WorkflowOutput | None) -> Group:
    task = Task("q", task_id="t", metadata={"answer": "2"})
    episodes = tuple(Episode(id=f"e{i}", task=task, step=3, repeat=i, output=output) for i, output in enumerate(outputs))
    return Group(task=task, step=3, split="train", episodes=episodes)


def judged(judge: Any, episodes: Group | None = None, timeout_s: float | None = None, **given: Any) -> list[Verdict | Unjudged]:
    return list(asyncio.run(collect_verdicts(make_judge(judge, **given), episodes or group(WorkflowOutput()), timeout_s)))


class Sync:
    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        return float(workflow_output.metadata["score"])


class Async:
    async def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> tuple[float, bool]:
        await asyncio.sleep(0)
        return 0.25, True


class Whole(Judge):
    async def judge(self, group: Group) -> list[Verdict]:
        return []


def test_a_sync_compute_reward_judges_each_completed_episode() -> None:
    outputs = group(WorkflowOutput(metadata={"score": 1}), None, WorkflowOutput(metadata={"score": 2}))
    assert judged(Sync, outputs) == [Verdict(1.0), Verdict(2.0)]


def test_an_async_compute_reward_is_awaited() -> None:
    assert judged(Async()) == [Verdict(0.25, True)]


def test_a_plain_function_is_a_judge() -> None:
    assert judged(lambda workflow_task, workflow_output: 1) == [Verdict(1.0)]


def test_a_whole_judge_passes_as_it_is() -> None:
    whole = Whole()
    assert make_judge(whole) is whole


def test_the_function_sees_which_episode_it_judges() -> None:
    seen: list[WorkflowTask] = []
    judged(lambda workflow_task, workflow_output: seen.append(workflow_task) or 1.0)
    assert [(task.episode_id, task.task_id, task.step, task.split, task.repeat) for task in seen] == [("e0", "t", 3, "train", 0)]


def test_a_verdict_is_taken_whole() -> None:
    verdict = Verdict(0.5, True, components={"format": 1.0}, rationale="short")
    assert judged(lambda *_: verdict) == [verdict]


def test_numpy_numbers_are_numbers() -> None:
    assert judged(lambda *_: (np.float32(0.5), np.bool_(True))) == [Verdict(0.5, True)]


@pytest.mark.parametrize(
    "answer",
    [
        "1.0",
        float("nan"),
        float("inf"),
        (1.0,),
        (1.0, "yes"),
        (float("nan"), True),
        [1.0, True],
        Verdict(float("nan")),
        Verdict(1.0, rewards={"coder": float("inf")}),
        Verdict(1.0, components={"format": "high"}),  # type: ignore[dict-item]  # what users do
    ],
)
def test_any_other_answer_is_no_score(answer: Any) -> None:
    (found,) = judged(lambda *_: answer, blame="judge 'j'")
    assert isinstance(found, Unjudged)
    assert found.reason == "bad_verdict"
    assert found.detail.startswith("judge 'j' returned ")


@pytest.mark.parametrize(("answer", "reward"), [(True, 1.0), (False, 0.0), (np.bool_(True), 1.0), (Verdict(True), 1.0)])
def test_a_truth_value_is_a_reward_and_a_success(answer: Any, reward: float) -> None:
    assert judged(lambda *_: answer) == [Verdict(reward, bool(reward))]


def test_a_pair_without_an_opinion_on_success_is_a_reward() -> None:
    assert judged(lambda *_: (0.5, None)) == [Verdict(0.5)]


@pytest.mark.parametrize("answer", [None, (None, None), (None, True), Verdict(None)])  # type: ignore[arg-type]  # what users do
def test_none_abstains_and_names_the_task(answer: Any) -> None:
    (found,) = judged(lambda *_: answer, blame="judge 'j'")
    assert isinstance(found, Unjudged)
    assert (found.reason, found.by_answer) == ("abstained", True)
    assert found.detail.startswith("judge 'j' returned ")
    assert found.detail.endswith("no opinion on task 't'")


class Serving:
    """A judge whose service fails some times."""

    def __init__(self, error: Exception, times: int) -> None:
        self.error, self.left, self.asked = error, times, 0

    def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        self.asked += 1
        if self.asked <= self.left:
            raise self.error
        return 1.0


def make_status_error(status: int) -> Exception:
    response = httpx.Response(status, request=httpx.Request("POST", "http://judge"))
    return openai.APIStatusError("no", response=response, body=None)


SERVICE = [
    ConnectionRefusedError("refused"),
    ServiceUnavailable("the index is down"),
    httpx.ReadTimeout("slow"),
    httpx2.ReadTimeout("slow"),
    make_status_error(503),
    make_status_error(500),
    make_status_error(429),
    make_status_error(401),
    httpx.HTTPStatusError("no", request=httpx.Request("GET", "http://j"), response=httpx.Response(502)),
    urllib.error.URLError(TimeoutError("slow")),
    urllib.error.HTTPError("http://j", 504, "slow", Message(), None),
    socket.gaierror("no such host"),
]
OWN = [
    ValueError("no number"),
    TimeoutError("my own alarm"),
    BrokenPipeError("the code that it ran ended"),
    make_status_error(400),
    make_status_error(413),
    urllib.error.HTTPError("http://j", 422, "too long", Message(), None),
    SystemExit(503),
]


@pytest.mark.parametrize("error", SERVICE, ids=lambda error: type(error).__name__)
def test_a_judge_whose_service_fails_is_asked_again_and_then_says_nothing_about_the_answer(error: Exception) -> None:
    assert judged(Serving(error, 2)) == [Verdict(1.0)]
    judge = Serving(error, 99)
    (found,) = judged(judge)
    assert isinstance(found, Unjudged)
    assert (found.reason, found.by_answer, judge.asked) == ("judge_unavailable", False, 3)


@pytest.mark.parametrize("error", OWN, ids=lambda error: type(error).__name__)
def test_what_the_judges_own_code_raises_is_about_the_answer_and_not_asked_again(error: Exception) -> None:
    judge = Serving(error, 99)
    (found,) = judged(judge)
    assert isinstance(found, Unjudged)
    assert (found.reason, found.by_answer, judge.asked) == ("judge_error", True, 1)


class Slow:
    async def compute_reward(self, workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        await asyncio.sleep(60)
        return 1.0


class SlowService(Slow):
    traits = JudgeTraits(asks_service=True)


@pytest.mark.parametrize(("judge", "reason"), [(Slow, "judge_timeout"), (SlowService, "judge_unavailable")])
def test_a_time_limit_is_about_the_answer_unless_the_judge_asks_a_service(judge: Any, reason: str) -> None:
    (found,) = judged(judge, timeout_s=0.05)
    assert isinstance(found, Unjudged)
    assert found.reason == reason


class Looping(Judge):
    """A whole judge that raises on one answer of a group."""

    async def judge(self, group: Group) -> list[Verdict | Unjudged]:
        return [Verdict(float(one.output.metadata["score"])) for one in group.episodes if one.output]


class LoopingAlone(Looping):
    traits = JudgeTraits(compares_siblings=False)


def test_a_whole_judge_that_compares_no_siblings_fails_only_on_the_answer_it_raises_on() -> None:
    outputs = group(WorkflowOutput(metadata={"score": 1}), None, WorkflowOutput(), WorkflowOutput(metadata={"score": 2}))
    first, second, third = judged(LoopingAlone, outputs)
    assert (first, third) == (Verdict(1.0), Verdict(2.0))
    assert isinstance(second, Unjudged)
    assert [one.reason for one in judged(Looping, outputs) if isinstance(one, Unjudged)] == ["judge_error"] * 3


@pytest.mark.parametrize("judge", [Sync, Sync()])
def test_a_failure_is_one_episodes(judge: Any) -> None:
    failed, fine = judged(judge, group(WorkflowOutput(), WorkflowOutput(metadata={"score": 1})), blame="judge 'j' from acme 1.0")
    assert isinstance(failed, Unjudged)
    assert failed.reason == "judge_error"
    assert re.match(r"judge 'j' from acme 1.0 raised KeyError: 'score' \(\S*test_simple_judges.py:\d+ in ", failed.detail)
    assert failed.place.endswith(" in compute_reward")
    assert failed.traceback.endswith("KeyError: 'score'")
    assert fine == Verdict(1.0)


@pytest.mark.parametrize("error", [StopIteration("end"), SystemExit(1), TimeoutError("upstream")])
def test_errors_that_an_event_loop_does_not_bear_are_failures_too(error: BaseException) -> None:
    def fails(*_: Any) -> float:
        raise error

    (found,) = judged(fails, timeout_s=60)
    assert isinstance(found, Unjudged)
    assert found.reason == "judge_error"
    assert type(error).__name__ in found.detail


def leave_debugger(*_: Any) -> float:
    raise UserQuit


async def leave_debugger_async(*_: Any) -> float:
    raise UserQuit


@pytest.mark.parametrize("judge", [leave_debugger, leave_debugger_async])
def test_a_judge_whose_user_leaves_the_debugger_has_not_failed_but_ended(judge: Callable[..., Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        judged(judge)


def test_a_sync_judge_does_not_hold_up_the_loop() -> None:
    released = threading.Event()

    async def play() -> list[Verdict | Unjudged]:
        judging = asyncio.create_task(make_judge(lambda *_: 1.0 if released.wait(30) else 0.0).judge(group(WorkflowOutput())))
        await asyncio.sleep(0)
        released.set()  # only reached while the judge waits
        return list(await judging)

    assert asyncio.run(play()) == [Verdict(1.0)]


def hang(*_: Any) -> float:
    time.sleep(600)
    return 1.0


async def hang_async(*_: Any) -> float:
    await asyncio.sleep(600)
    return 1.0


@pytest.mark.parametrize("judge", [hang, hang_async])
def test_a_judge_that_hangs_gives_no_score_and_lets_the_loop_end(judge: Callable[..., Any]) -> None:
    (found,) = judged(judge, blame="judge 'j'", timeout_s=0.05)
    assert isinstance(found, Unjudged)
    assert found.reason == "judge_timeout"
    assert re.match(r"judge 'j' gave no verdict within 0.05 s; it was at \S*test_simple_judges.py:", found.detail)


def test_the_siblings_of_an_episode_about_which_a_judge_hangs_keep_their_rewards() -> None:
    def hangs_on_one(workflow_task: WorkflowTask, workflow_output: WorkflowOutput) -> float:
        return hang() if workflow_task.repeat == 1 else 1.0

    found = judged(hangs_on_one, group(*[WorkflowOutput()] * 3), timeout_s=3.0, blame="judge 'j'")
    assert [type(one) for one in found] == [Verdict, Unjudged, Verdict]


def test_failed_attempts_before_are_counted() -> None:
    episode = Episode(id="e", task=Task(), step=1, repeat=0, output=WorkflowOutput(), failures=(Failure(reason="timeout"),))
    seen: list[int] = []
    one = Group(task=Task(), step=1, split="train", episodes=(episode,))
    judged(lambda workflow_task, _: seen.append(workflow_task.attempt) or 1.0, one)
    assert seen == [1]


def test_what_is_no_judge_says_what_one_is() -> None:
    with pytest.raises(PluginError, match=r"judge 'j' is .*; a judge is a subclass of astuner\.Judge, a class with"):
        make_judge(object(), blame="judge 'j'")
