"""Judge functions whose parameters are named as AgentScope's `tune()` names them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from astuner.contract.errors import PluginError
from astuner.contract.schema import Episode, Group, Task, Unjudged, Verdict, WorkflowOutput
from astuner.episodes.judging.failures import collect_verdicts
from astuner.episodes.judging.judge_tuner import offer_tuner
from astuner.episodes.judging.simple_judges import make_judge
from astuner.settings.config.auxiliary_models import AuxiliaryModel

TASK = Task("2 + 2?", task_id="t", metadata={"answer": "4"}, columns={"question": "main_query"})


def judge(function: Callable[..., Any], output: WorkflowOutput, **given: Any) -> Verdict | Unjudged:
    group = Group(task=TASK, step=1, split="train", episodes=(Episode(id="e", task=TASK, step=1, repeat=0, output=output),))
    [verdict] = asyncio.run(collect_verdicts(make_judge(function, blame="judge 'grade'", **given), group, None))
    return verdict


def test_the_task_is_the_row_and_the_response_the_object():
    seen: list[Any] = []

    async def grade(task: dict[str, Any], response: Any) -> float:
        seen.extend((task, response))
        return 1.0

    answered = object()
    assert judge(grade, WorkflowOutput(response=answered)) == Verdict(1.0)
    assert seen == [{"question": "2 + 2?", "answer": "4", "main_query": "2 + 2?", "task_id": "t"}, answered]


def test_a_plain_function_gets_what_it_names_and_no_models_are_an_empty_dict():
    def grade(response: Any, task: dict[str, Any], auxiliary_models: dict[str, Any], logger: logging.Logger) -> float:
        assert (task["answer"], auxiliary_models, logger.name) == ("4", {}, "astuner.judge")
        return float(response)

    assert judge(grade, WorkflowOutput(response="0.5")) == Verdict(0.5)


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"final_answer": "4"}, "4"),
        ({"final_answer": "{...}", "response": {"value": 4}}, {"value": 4}),
        ({}, None),
    ],
)
def test_without_the_object_the_response_is_what_was_stored(metadata: dict[str, Any], expected: Any):
    seen: list[Any] = []
    judge(lambda task, response: seen.append(response) or 0.0, WorkflowOutput(metadata=metadata))
    assert seen == [expected]


def test_a_result_has_a_reward_and_metrics_and_words_become_the_rationale():
    result = SimpleNamespace(reward=0.5, metrics={"accuracy": 1, "format": True, "who": "werewolf"})
    found = judge(lambda task, response: result, WorkflowOutput())
    assert found == Verdict(0.5, components={"accuracy": 1.0, "format": 1.0}, rationale="who: werewolf")


@pytest.mark.parametrize("reward", ["high", float("nan")])
def test_a_result_whose_reward_is_not_a_number_is_a_bad_verdict(reward: Any):
    found = judge(lambda task, response: SimpleNamespace(reward=reward, metrics=None), WorkflowOutput())
    assert isinstance(found, Unjudged)
    assert found.reason == "bad_verdict"


def test_any_simple_judge_may_return_such_a_result():
    found = judge(lambda workflow_task, workflow_output: SimpleNamespace(reward=1, metrics={}), WorkflowOutput())
    assert found == Verdict(1.0)


def test_a_parameter_that_nothing_meets_is_refused_by_name():
    with pytest.raises(PluginError, match=r"judge 'grade' takes \(task, response, rubric\), and nothing gives rubric"):
        make_judge(lambda task, response, rubric: 1.0, blame="judge 'grade'")


def test_a_frozen_model_has_no_answer_where_no_run_is_going_on():
    models = {"judge": AuxiliaryModel()}
    found = judge(lambda task, response, auxiliary_models: 1.0, WorkflowOutput(), auxiliary_models=models)
    assert isinstance(found, Unjudged)
    assert "rollout.auxiliary_models.judge" in found.detail
    assert found.reason == "judge_error"


def test_a_frozen_model_is_opened_for_the_episode_and_closed():
    log: list[str] = []

    @asynccontextmanager
    async def open_tuner(episode_id: str) -> Any:
        log.append(f"open {episode_id}")
        yield SimpleNamespace(as_agentscope_auxiliary_models=lambda: {"judge": "the model"})
        log.append("close")

    def grade(task: Any, response: Any, auxiliary_models: dict[str, Any]) -> float:
        log.append(auxiliary_models["judge"])
        return 1.0

    with offer_tuner(open_tuner):
        assert judge(grade, WorkflowOutput(), auxiliary_models={"judge": AuxiliaryModel()}) == Verdict(1.0)
    assert log == ["open e", "the model", "close"]
