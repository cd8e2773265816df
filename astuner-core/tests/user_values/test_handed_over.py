"""Outputs of workflows, verdicts of judges and tasks of readers as they are stored."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import hostile_values as hostile
import numpy as np
import pytest
from attrs import frozen

from astuner.contract.errors import DataError
from astuner.contract.schema import Task, Unjudged, Verdict, WorkflowOutput
from astuner.contract.user_values.changes import ChangeCounts
from astuner.contract.user_values.outputs import check_output
from astuner.contract.user_values.tasks import check_task
from astuner.contract.user_values.verdicts import check_verdict
from astuner.episodes.rollout.steady_tasks import SteadyTasks

ONE = [1, 1.0, True, np.float32(1), np.float64(1), np.int64(1), np.bool_(True), np.array(1.0)]


@pytest.mark.parametrize("one", ONE, ids=lambda one: type(one).__name__)
def test_numpys_scalars_are_rewards_success_and_metrics(one: Any) -> None:
    given = WorkflowOutput(reward=one, is_success=one, metadata={"x": one}, log_metrics={"x": one})
    output = check_output(given).output
    assert output == WorkflowOutput(reward=1.0, is_success=True, metadata={"x": 1}, log_metrics={"x": 1.0})
    assert [type(value) for value in (output.reward, output.is_success, output.log_metrics["x"])] == [float, bool, float]
    assert check_output(WorkflowOutput(reward={"a": one, "*": 0})).output.reward == {"a": 1.0, "*": 0.0}


@pytest.mark.parametrize("one", [one for one in ONE if not isinstance(one, bool | np.bool_)], ids=lambda one: type(one).__name__)
def test_numpys_scalars_are_verdicts(one: Any) -> None:
    found = check_verdict(Verdict(one, one > 0.5, rewards={"a": one}, components={"f1": one}))
    assert found == Verdict(1.0, True, rewards={"a": 1.0}, components={"f1": 1.0})
    assert isinstance(found, Verdict)
    assert [type(value) for value in (found.reward, found.is_success, found.components["f1"])] == [float, bool, float]


@pytest.mark.parametrize(
    "verdict",
    [
        Verdict(1e308),
        Verdict(math.nan),
        Verdict("1"),  # type: ignore[arg-type]
        Verdict(1.0, rewards={"a": math.inf}),
        Verdict(1.0, components={"a": math.nan}),
        Verdict(1.0, hostile.Raises(SystemExit)),  # type: ignore[arg-type]
    ],
)
def test_a_verdict_that_cannot_be_used_is_none(verdict: Verdict) -> None:
    found = check_verdict(verdict)
    assert isinstance(found, Unjudged)
    assert found.reason == "bad_verdict"


def test_a_verdict_that_cannot_be_used_says_what_is_wrong_and_what_is_needed() -> None:
    found = check_verdict(Verdict(1.0, rewards={"player": 1e308}))
    assert isinstance(found, Unjudged)
    assert found.detail == "the reward of 'player' is 1e+308; it must be a finite number between -1e+12 and 1e+12"


def test_rationales_and_reasons_are_valid_text() -> None:
    found = check_verdict(Verdict(1.0, rationale="\ud83d", components={"f\udc80": 1}))
    assert found == Verdict(1.0, rationale="\ufffd", components={"f\ufffd": 1.0})
    assert Unjudged(reason="judge_error", detail="\ud83d").detail == "\ufffd"


def test_a_users_own_class_is_handed_on_as_what_is_stored_of_it() -> None:
    @frozen
    class Traced(WorkflowOutput):
        trace: str = ""

    assert type(check_output(Traced(reward=1, trace="t")).output) is WorkflowOutput


def test_changes_are_counted_by_episode_and_reported_once() -> None:
    counts = ChangeCounts()
    for side in ("werewolf", "villager"):
        counts.add(check_output(WorkflowOutput(log_metrics={"side": side, "turns": 1}, metadata={"text": "\ud83d"})).changes)
    assert list(counts.take_notices()) == [
        "WorkflowOutput.metadata['text'] holds text that is not valid Unicode in 2 episodes: each lone surrogate became U+FFFD",
        "WorkflowOutput.log_metrics['side'] must be a finite number and was str in 2 episodes: it is left out there. Put it into "
        "`metadata` if a judge needs it.",
    ]
    counts.add(check_output(WorkflowOutput(log_metrics={"side": "seer"})).changes)
    assert list(counts.take_notices()) == []


class Yields:
    def __init__(self, *tasks: Any) -> None:
        self.tasks = tasks

    def read(self, split: Any) -> Any:
        yield from self.tasks if split == "train" else ()


def test_the_values_of_a_readers_task_become_plain() -> None:
    messages: Any = [{"role": "user", "content": np.str_("c")}]
    number: Any = np.int64(7)
    given = Task("q", messages, number, metadata={"label": number, "day": date(2026, 1, 2)})
    (task,) = SteadyTasks(Yields(given)).read("train")
    expected = Task("q", ({"role": "user", "content": "c"},), "7", metadata={"label": 7, "day": "2026-01-02"})
    assert (task, type(task.metadata["label"])) == (expected, int)


def test_tasks_whose_text_is_not_valid_are_mended_and_counted() -> None:
    given = Task("a", task_id="1"), Task("\ud83d", task_id="2"), Task("b", task_id="3", metadata={"k": "\udc80"})
    tasks = SteadyTasks(Yields(*given))
    assert [task.main_query for task in tasks.read("train")] == ["a", "\ufffd", "b"]
    assert tasks.describe_mended() == (
        "the text of 2 task(s) is not valid Unicode, the first is '2' (train): each lone surrogate became U+FFFD"
    )


IMAGE = Task("q", task_id="7", metadata={"image": object()})
LOSS = Task("q", task_id="7", metadata={"x": math.nan})
TEXT = Task("q", ["hi"], "7")  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("task", "said"),
    [
        (IMAGE, "task '7' (train): metadata holds an object, which is not a JSON value"),
        (LOSS, "task '7' (train): metadata holds nan, which is not a JSON value"),
        (TEXT, "task '7' (train): init_messages hold 'hi'; a message is {'role': 'user', 'content': TEXT}"),
        ({"main_query": "q"}, "the reader yielded {'main_query': 'q'} (train); it must yield instances of astuner.Task"),
    ],
)
def test_a_task_that_cannot_be_stored_is_refused_with_its_place(task: Any, said: str) -> None:
    with pytest.raises(DataError) as refused:
        check_task(task, "train")
    assert str(refused.value).startswith(said)
